#include "lang/gradient/sums/shared_factors.h"

#include <algorithm>

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Stays = std::function<bool(const ExpressionPtr&, bool divides)>;

/// Integers divide otherwise. What derivatives are made of has no type, and is a float unless all
/// of it are indices, sizes and whole numbers.
bool is_integer(const Expression& e) {
  if (e.type.bits() != 0) return !e.type.is_float();
  if (e.operands.empty())
    return e.kind == ExpressionKind::Name || (e.constant && !e.constant->is_float);
  return e.kind != ExpressionKind::Apply &&
         std::all_of(e.operands.begin(), e.operands.end(),
                     [](const ExpressionPtr& operand) { return is_integer(*operand); });
}

/// Multiplies what there is by `e`, or divides it. What stays is of this type.
void take(SharedFactors& shared, const ExpressionPtr& e, bool divides, const Stays& stays,
          Type type) {
  bool looks_through = !is_integer(*e) && !e->constant;  // 3 / 2 is 1
  if (looks_through && (is_binary(*e, Operator::Multiply) || is_binary(*e, Operator::Divide))) {
    take(shared, e->operands[0], divides, stays, type);
    take(shared, e->operands[1], divides != is_binary(*e, Operator::Divide), stays, type);
  } else if (looks_through && is_negation(*e)) {
    shared.negative = !shared.negative;
    take(shared, e->operands[0], divides, stays, type);
  } else if (!stays(e, divides)) {
    (divides ? shared.divisors : shared.factors).push_back(e);
  } else if (shared.term) {
    shared.term = binary(divides ? Operator::Divide : Operator::Multiply, shared.term, e);
  } else {
    // Integers would be added up, and divided, as what they are.
    const ExpressionPtr first = is_integer(*e) ? cast(type, e) : e;
    shared.term = divides ? binary(Operator::Divide, real(1), first) : first;
  }
}

}  // namespace

ExpressionPtr SharedFactors::apply(ExpressionPtr sum) const {
  for (const ExpressionPtr& factor : factors) sum = binary(Operator::Multiply, sum, factor);
  for (const ExpressionPtr& divisor : divisors) sum = binary(Operator::Divide, sum, divisor);
  return negative ? negate(sum) : sum;
}

bool have_same_factors(const SharedFactors& a, const SharedFactors& b) {
  const auto same = [](const std::vector<ExpressionPtr>& x, const std::vector<ExpressionPtr>& y) {
    return std::is_permutation(
        x.begin(), x.end(), y.begin(), y.end(),
        [](const ExpressionPtr& e, const ExpressionPtr& other) { return equal(*e, *other); });
  };
  return !a.empty() && same(a.factors, b.factors) && same(a.divisors, b.divisors);
}

SharedFactors find_shared_factors(const ExpressionPtr& term, Type type, const Stays& stays) {
  SharedFactors shared;
  take(shared, term, false, stays, type);
  if (!shared.term) return {term, false, {}, {}};
  return shared;
}

std::vector<ExpressionPtr> take_out_divisors(std::vector<ExpressionPtr>* terms) {
  if (terms->size() < 2) return {};
  std::vector<SharedFactors> parts;
  const auto none_stays = [](const ExpressionPtr&, bool) { return false; };
  for (const ExpressionPtr& term : *terms)
    take(parts.emplace_back(), term, false, none_stays, Type());
  std::vector<ExpressionPtr> shared;
  for (const ExpressionPtr& divisor : std::vector<ExpressionPtr>(parts[0].divisors)) {
    const auto find = [&](SharedFactors& part) {
      return std::find_if(part.divisors.begin(), part.divisors.end(),
                          [&](const ExpressionPtr& other) { return equal(*other, *divisor); });
    };
    if (std::any_of(parts.begin(), parts.end(),
                    [&](SharedFactors& part) { return find(part) == part.divisors.end(); }))
      continue;
    for (SharedFactors& part : parts) part.divisors.erase(find(part));
    shared.push_back(divisor);
  }
  for (size_t k = 0; k < parts.size() && !shared.empty(); ++k)
    (*terms)[k] = parts[k].apply(integer(1));
  return shared;
}

}  // namespace tc::lang
