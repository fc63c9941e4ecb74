#include "lang/gradient/joined_reads.h"

#include <vector>

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

/// What a product from left to right begins with, and the factors behind that.
struct Beginning {
  ExpressionPtr leading;
  bool negative = false;         ///< whether signs stand in front of it, and between the factors
  ExpressionPtr factors_behind;  ///< 1 for none
};

/// All of them, the whole first.
std::vector<Beginning> beginnings_of(const ExpressionPtr& e) {
  std::vector<Beginning> beginnings;
  Beginning next{e, false, integer(1)};
  while (true) {
    while (is_negation(*next.leading)) {
      next.negative = !next.negative;
      next.leading = next.leading->operands[0];
    }
    beginnings.push_back(next);
    if (!is_binary(*next.leading, Operator::Multiply)) return beginnings;
    next.factors_behind =
        binary(Operator::Multiply, next.leading->operands[1], next.factors_behind);
    next.leading = next.leading->operands[0];
  }
}

/// The sum of two weights of a type, as a product where both begin with the same factors: but for
/// half, where the sum of what is left may overflow.
ExpressionPtr add(const ExpressionPtr& first, const ExpressionPtr& second, Type type) {
  if (type == Halide::Float(16)) return binary(Operator::Add, first, second);
  const std::vector<Beginning> others = beginnings_of(second);
  for (const Beginning& own : beginnings_of(first)) {
    for (const Beginning& other : others) {
      if (!equal(*own.leading, *other.leading)) continue;
      const Operator op = own.negative == other.negative ? Operator::Add : Operator::Subtract;
      ExpressionPtr sum = binary(Operator::Multiply, own.leading,
                                 binary(op, own.factors_behind, other.factors_behind));
      return own.negative ? negate(sum) : sum;
    }
  }
  return binary(Operator::Add, first, second);
}

}  // namespace

bool join(const std::vector<ExpressionPtr>& guards, const ExpressionPtr& weight, Type type,
          std::vector<ExpressionPtr>* other_guards, ExpressionPtr* other_weight) {
  const bool same = equal(**other_weight, *weight);
  if (equal(*other_guards, guards)) {
    *other_weight =
        same ? binary(Operator::Multiply, real(2), weight) : add(*other_weight, weight, type);
    return true;
  }
  if (other_guards->empty() || guards.empty()) return false;
  const ExpressionPtr condition = other_guards->back(), own = guards.back();
  const bool complementary = equal(*own, *logical_not(condition));
  const std::vector<ExpressionPtr> outer(other_guards->begin(), other_guards->end() - 1);
  if ((!complementary && !equal(*condition, *logical_not(own))) ||
      !equal(outer, {guards.begin(), guards.end() - 1}))
    return false;
  if (!same)
    *other_weight = complementary ? choose(condition, *other_weight, weight)
                                  : choose(own, weight, *other_weight);
  *other_guards = outer;
  return true;
}

bool join(const ReadGradient& part, Contribution* other) {
  return other->to == part.read->name && equal(other->subscripts, part.read->operands) &&
         join(part.guards, part.weight, part.read->type, &other->guards, &other->weight);
}

}  // namespace tc::lang
