#include "codegen/hidden_zero.h"

namespace tc::codegen {
namespace {

constexpr char kName[] = "tc.zero";

}  // namespace

ir::Expr hidden_zero() { return ir::make_variable(kName); }

ir::Stmt define_hidden_zero(const ir::Stmt& stmt) {
  using namespace Halide::Internal;
  if (!stmt_uses_var(stmt, kName)) return stmt;
  // The lowest bit of an aligned pointer.
  ir::Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
  ir::Expr bit = reinterpret(Halide::UInt(64), context) & make_const(Halide::UInt(64), 1);
  return LetStmt::make(kName, Halide::cast(Halide::Int(32), bit), stmt);
}

}  // namespace tc::codegen
