#include "codegen/workarounds/hidden_zero.h"

namespace tc::codegen {
namespace {

constexpr char kName[] = "tc.zero";

}  // namespace

ir::Expr hidden_zero() { return ir::make_variable(kName); }

ir::Expr hidden(const ir::Expr& value) {
  using namespace Halide::Internal;
  ir::Type bits = value.type().with_code(halide_type_int);
  ir::Expr zero = Halide::cast(bits.element_of(), hidden_zero());
  if (bits.is_vector()) zero = Broadcast::make(zero, bits.lanes());
  return reinterpret(value.type(), reinterpret(bits, value) ^ zero);
}

ir::Expr reveal(const ir::Expr& value) {
  using namespace Halide::Internal;
  return simplify(substitute(kName, ir::Expr(0), value));
}

ir::Stmt define_hidden_zero(const ir::Stmt& stmt) {
  using namespace Halide::Internal;
  if (!stmt_uses_var(stmt, kName)) return stmt;
  // The lowest bit of an aligned pointer.
  ir::Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
  ir::Expr bit = reinterpret(Halide::UInt(64), context) & make_const(Halide::UInt(64), 1);
  return LetStmt::make(kName, Halide::cast(Halide::Int(32), bit), stmt);
}

}  // namespace tc::codegen
