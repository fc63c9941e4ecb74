#include <algorithm>

#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "codegen/workarounds/passes.h"

namespace tc::codegen {
namespace {

class CompareFloats : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::strict_lt) && !op->is_intrinsic(Call::strict_le))
      return IRMutator::visit(op);
    const Expr &left = op->args[0], &right = op->args[1];
    bool first = is_half(left), second = is_half(right);
    if (!(first || second) || !(first || is_const(left)) || !(second || is_const(right)))
      return IRMutator::visit(op);
    Expr a = mutate(left), b = mutate(right);
    (first ? a : b) = hidden(first ? a : b);
    return Call::make(op->type, op->name, {a, b}, op->call_type);
  }

  /// Whether LLVM could find e to be a half made float or double: what only selects, moves or
  /// rounds such values, or changes their sign, can be done before as well.
  bool is_half(const Expr& e) const {
    if (!e.type().is_float() || e.type().bits() < 32) return false;
    auto any = [&](const std::vector<Expr>& values) {
      return std::any_of(values.begin(), values.end(), [&](const Expr& v) { return is_half(v); });
    };
    if (const auto* cast = e.as<Cast>())
      return cast->value.type().element_of() == Halide::Float(16) || is_half(cast->value);
    if (const auto* name = e.as<Variable>()) {
      const bool* half = halves_.find(name->name);
      return half && *half;
    }
    if (const auto* choice = e.as<Select>())
      return is_half(choice->true_value) || is_half(choice->false_value);
    if (const auto* lanes = e.as<Broadcast>()) return is_half(lanes->value);
    if (const auto* lanes = e.as<Shuffle>()) return any(lanes->vectors);
    if (const auto* let = e.as<Let>()) return is_half(let->body) || is_half(let->value);
    const auto* call = e.as<Call>();
    if (!call) return false;
    bool product = call->is_intrinsic(Call::strict_mul);
    bool sum = call->is_intrinsic(Call::strict_add) || call->is_intrinsic(Call::strict_sub) ||
               call->is_intrinsic(Call::strict_div);
    if (sum || (product && !is_const(call->args[0]) && !is_const(call->args[1]))) return false;
    return any(call->args);
  }

  Expr visit(const Let* op) override {
    ScopedBinding<bool> bound(halves_, op->name, is_half(op->value));
    return IRMutator::visit(op);
  }
  Stmt visit(const LetStmt* op) override {
    ScopedBinding<bool> bound(halves_, op->name, is_half(op->value));
    return IRMutator::visit(op);
  }

  Scope<bool> halves_;
};

}  // namespace

Stmt compare_halves_as_floats(const Stmt& stmt) { return CompareFloats().mutate(stmt); }

}  // namespace tc::codegen
