#include "codegen/workarounds/byte_sums.h"

#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/visit.h"

namespace tc::codegen {

Expr begin_byte_sum(const Expr& zero, const Expr& term) {
  if (!zero.type().is_int_or_uint() || zero.type().bits() != 32) return zero;
  bool has_bytes = false;
  ir::visit_graph(term, [&](const Cast* cast, ir::Visitor& self) {
    const Type from = cast->value.type();
    has_bytes = has_bytes || (from.is_int_or_uint() && from.bits() == 8);
    self.inside(cast);
  });
  return has_bytes ? hidden(zero) : zero;
}

}  // namespace tc::codegen
