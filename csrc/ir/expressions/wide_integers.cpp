#include "ir/expressions/wide_integers.h"

#include "ir/visit.h"

namespace tc::ir {
namespace {

const Type kInt = Halide::Int(32), kWide = Halide::Int(64);

}  // namespace

Expr widen(const Expr& e, bool retyped) {
  // Operands of 32 bits become such of 64; everything of another type keeps its type.
  return ir::mutate(
      e,
      [](const IntImm* op, Mutator&) {
        return op->type == kInt ? make_const(kWide, op->value) : Expr(op);
      },
      [&](const Variable* op, Mutator&) -> Expr {
        if (op->type != kInt) return op;
        return retyped ? Variable::make(kWide, op->name) : Cast::make(kWide, op);
      },
      [](const Cast* op, Mutator& self) {
        const bool exact = op->value.type() == kInt || op->value.type() == kWide;
        Expr value = self.mutate(op->value);
        if (op->type != kInt && op->type != kWide) return Cast::make(op->type, value);
        if (exact) return value;
        return Halide::cast(kWide, Halide::cast(op->type, value));
      },
      [](const Call* op, Mutator& self) {
        if (!op->is_intrinsic(Call::if_then_else))
          return op->type == kInt ? Cast::make(kWide, op) : Expr(op);
        return map_arguments(op, op->type == kInt ? kWide : op->type,
                             [&](const Expr& argument) { return self.mutate(argument); });
      });
}

std::optional<Expr> narrow(const Expr& e) {
  bool fits = true;
  const Expr result = ir::mutate(
      e,
      [&](const IntImm* op, Mutator&) -> Expr {
        if (op->type != kWide) return op;
        fits = fits && kInt.can_represent(op->value);
        return fits ? make_const(kInt, op->value) : make_zero(kInt);
      },
      [](const Variable* op, Mutator&) {
        return op->type == kWide ? Variable::make(kInt, op->name) : Expr(op);
      },
      [](const Cast* op, Mutator& self) {
        Expr value = self.mutate(op->value);
        return op->type == kWide ? Halide::cast(kInt, value) : Cast::make(op->type, value);
      },
      [](const Call* op, Mutator& self) {
        if (op->type != kWide) return self.inside(op);
        return map_arguments(op, kInt, [&](const Expr& argument) { return self.mutate(argument); });
      });
  return fits ? std::optional(result) : std::nullopt;
}

Expr simplify_wide(const Expr& e, const Bounds& bounds) {
  std::optional<Expr> result = narrow(simplify(widen(e, /*retyped=*/true), true, bounds));
  return result ? *result : make_signed_integer_overflow(kInt);
}

bool overflows(const Expr& e) {
  auto marks = [](const Call* op) { return op->is_intrinsic(Call::signed_integer_overflow); };
  return e.defined() && any<Call>(e, marks);
}

}  // namespace tc::ir
