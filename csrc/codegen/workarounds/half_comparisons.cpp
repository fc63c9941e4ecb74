#include "codegen/workarounds/half_comparisons.h"

#include <algorithm>

#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// Whether LLVM could find e to be a half made float or double: what only selects, moves or
/// rounds such values, or changes their sign, can be done before as well. `halves`: names, and
/// whether they are.
bool is_half(const Expr& e, const Scope<bool>& halves) {
  if (!e.type().is_float() || e.type().bits() < 32) return false;
  auto any = [&](const std::vector<Expr>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](const Expr& v) { return is_half(v, halves); });
  };
  if (const auto* cast = e.as<Cast>())
    return cast->value.type().element_of() == Halide::Float(16) || any({cast->value});
  if (const auto* name = e.as<Variable>()) {
    const bool* half = halves.find(name->name);
    return half && *half;
  }
  if (const auto* choice = e.as<Select>()) return any({choice->true_value, choice->false_value});
  if (const auto* lanes = e.as<Broadcast>()) return any({lanes->value});
  if (const auto* lanes = e.as<Shuffle>()) return any(lanes->vectors);
  if (const auto* let = e.as<Let>()) return any({let->body, let->value});
  const auto* call = e.as<Call>();
  if (!call) return false;
  bool product = call->is_intrinsic(Call::strict_mul);
  bool sum = call->is_intrinsic(Call::strict_add) || call->is_intrinsic(Call::strict_sub) ||
             call->is_intrinsic(Call::strict_div);
  if (sum || (product && !is_const(call->args[0]) && !is_const(call->args[1]))) return false;
  return any(call->args);
}

}  // namespace

Stmt compare_halves_as_floats(const Stmt& stmt) {
  Scope<bool> halves;
  return ir::mutate(
      stmt,
      [&](const Call* op, ir::Mutator& self) -> Expr {
        if (!op->is_intrinsic(Call::strict_lt) && !op->is_intrinsic(Call::strict_le))
          return self.inside(op);
        const Expr &left = op->args[0], &right = op->args[1];
        bool first = is_half(left, halves), second = is_half(right, halves);
        if (!(first || second) || !(first || is_const(left)) || !(second || is_const(right)))
          return self.inside(op);
        Expr a = self.mutate(left), b = self.mutate(right);
        (first ? a : b) = hidden(first ? a : b);
        return Call::make(op->type, op->name, {a, b}, op->call_type);
      },
      [&](const Let* op, ir::Mutator& self) {
        ScopedBinding<bool> bound(halves, op->name, is_half(op->value, halves));
        return self.inside(op);
      },
      [&](const LetStmt* op, ir::Mutator& self) {
        ScopedBinding<bool> bound(halves, op->name, is_half(op->value, halves));
        return self.inside(op);
      });
}

}  // namespace tc::codegen
