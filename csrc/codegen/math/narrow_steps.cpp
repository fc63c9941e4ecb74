#include "codegen/math/narrow_steps.h"

#include "codegen/math/named.h"
#include "codegen/names.h"
#include "ir/program.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// C's nextafter(x, y). Numbers of one sign are in the order of their bits.
Expr step(const Expr& x, const Expr& y) {
  const Halide::Type bits = Halide::Int(16, x.type().lanes());
  const auto nan = [](const Expr& e) { return ir::math("isnan", e.type(), {e}); };
  Expr zero = make_zero(x.type()), one = make_one(bits);
  Expr away = (y > x) == (x > zero);
  Expr moved = reinterpret(x.type(), reinterpret(bits, x) + select(away, one, -one));
  Expr smallest = reinterpret(x.type(), (reinterpret(bits, y) & make_const(bits, -0x8000)) | one);
  Expr next = select(x == y, y, select(x == zero, smallest, moved));
  return select(nan(x) || nan(y), x + y, next);
}

}  // namespace

Stmt lower_narrow_steps(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) {
    if (ir::math_name(op) != "nextafter" || op->type.bits() > 16) return self.inside(op);
    Names names;
    const Expr x = names(self.mutate(op->args[0])), y = names(self.mutate(op->args[1]));
    return names.around(step(x, y));
  });
}

}  // namespace tc::codegen
