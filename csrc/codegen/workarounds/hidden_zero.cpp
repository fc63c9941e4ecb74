#include "codegen/workarounds/hidden_zero.h"

#include "codegen/names.h"

namespace tc::codegen {
namespace {

constexpr char kName[] = "tc.zero";

}  // namespace

Expr hidden_zero() { return ir::make_variable(kName); }

Expr hidden(const Expr& value) {
  Type bits = value.type().with_code(halide_type_int);
  Expr zero = Halide::cast(bits.element_of(), hidden_zero());
  if (bits.is_vector()) zero = Broadcast::make(zero, bits.lanes());
  return reinterpret(value.type(), reinterpret(bits, value) ^ zero);
}

Expr hide_extreme(const Expr& identity) {
  const Type type = identity.type();
  const bool extreme = type.is_int() && type.bits() >= 32 &&
                       (equal(identity, type.min()) || equal(identity, type.max()));
  return extreme ? hidden(identity) : identity;
}

Expr separate(const Load& load, const Expr& iteration) {
  return Load::make(load.type, load.name, load.index + iteration * hidden_zero(), load.image,
                    load.param, load.predicate, ModulusRemainder());
}

Expr reveal(const Expr& value) { return simplify(substitute(kName, Expr(0), value)); }

Stmt define_hidden_zero(const Stmt& stmt) {
  if (!stmt_uses_var(stmt, kName)) return stmt;
  // The lowest bit of an aligned pointer.
  Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
  Expr bit = reinterpret(Halide::UInt(64), context) & make_const(Halide::UInt(64), 1);
  return LetStmt::make(kName, Halide::cast(Halide::Int(32), bit), stmt);
}

}  // namespace tc::codegen
