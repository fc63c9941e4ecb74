#include "ir/expressions/wide_integers.h"

#include "ir/visit.h"

namespace tc::ir {
namespace {

const Type kInt = Halide::Int(32), kWide = Halide::Int(64);
const Type kUnsigned = Halide::UInt(32), kWideUnsigned = Halide::UInt(64);

/// The number whose magnitude this is, as a remainder's operand has it (see c_mod in ir/program).
Expr find_signed(const Select* op) {
  const auto* negative = op->condition.as<LT>();
  const auto* minus = op->true_value.as<Sub>();
  const auto* same = op->false_value.as<Cast>();
  const bool matches = negative && minus && same && is_const_zero(negative->b) &&
                       is_const_zero(minus->a) && equal(minus->b, op->false_value) &&
                       equal(negative->a, same->value) && same->value.type() == kInt;
  return matches ? same->value : Expr();
}

/// Of quotients and remainders of magnitudes of 32 bits, the same of 64; nothing where anything
/// else has no sign, which is asked for to wrap around.
std::optional<Expr> widen_magnitudes(const Expr& e, Mutator& mutator) {
  const auto both = [&](const auto* op) -> std::optional<Expr> {
    const auto a = widen_magnitudes(op->a, mutator), b = widen_magnitudes(op->b, mutator);
    return a && b ? std::optional(op->make(*a, *b)) : std::nullopt;
  };
  if (const auto* op = e.as<UIntImm>()) return make_const(kWideUnsigned, op->value);
  if (const auto* op = e.as<Div>()) return both(op);
  if (const auto* op = e.as<Mod>()) return both(op);
  if (const auto* op = e.as<Sub>()) return is_const_zero(op->a) ? both(op) : std::nullopt;
  const auto* op = e.as<Select>();
  if (!op) return std::nullopt;
  if (const Expr number = find_signed(op); number.defined()) {
    const Expr wide = mutator.mutate(number), magnitude = Cast::make(kWideUnsigned, wide);
    return Select::make(wide < make_zero(kWide), make_zero(kWideUnsigned) - magnitude, magnitude);
  }
  const auto yes = widen_magnitudes(op->true_value, mutator);
  const auto no = widen_magnitudes(op->false_value, mutator);
  if (!yes || !no) return std::nullopt;
  return Select::make(mutator.mutate(op->condition), *yes, *no);
}

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
        if (op->value.type() == kUnsigned)
          if (const auto wide = widen_magnitudes(op->value, self)) return Cast::make(kWide, *wide);
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
