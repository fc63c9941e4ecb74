#include "codegen/workarounds/byte_sums.h"

#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/visit.h"

namespace tc::codegen {

Expr begin_byte_sum(const Expr& zero, const Expr& term) {
  if (!zero.type().is_int_or_uint() || zero.type().bits() != 32) return zero;
  const bool has_bytes = ir::any<Cast>(term, [](const Cast* cast) {
    const Type from = cast->value.type();
    return from.is_int_or_uint() && from.bits() == 8;
  });
  return has_bytes ? hidden(zero) : zero;
}

}  // namespace tc::codegen
