#include "lang/deviations.h"

#include <algorithm>
#include <set>

#include "lang/expressions.h"

namespace tc::lang {
namespace {

const Step* find_step(const Versions& versions, const std::string& version) {
  for (const Step& step : versions.steps)
    if (step.target == version) return &step;
  return nullptr;
}

/// What an element of a step's tensor is computed by, at some place; null where that is more than
/// an assignment to every element.
ExpressionPtr value_at(const Step& step, const std::vector<ExpressionPtr>& place) {
  if (!step.covers || step.scatters() || place.size() != step.left.size()) return nullptr;
  std::map<std::string, ExpressionPtr> names;
  for (size_t d = 0; d < place.size(); ++d) names[step.left[d]] = place[d];
  return substitute(step.value, names);
}

/// Takes divisions by expressions of sizes off, and multiplies what they divide by.
ExpressionPtr without_divisors(ExpressionPtr e, Expr* divisor) {
  while (e->kind == ExpressionKind::Binary && e->op == Operator::Divide) {
    Expr by = to_halide(*e->operands[1]);
    if (!by.defined()) return e;
    *divisor = *divisor * by;
    e = e->operands[0];
  }
  return e;
}

void add_factors(const Expr& e, std::vector<Expr>* factors) {
  if (const auto* product = e.as<Halide::Internal::Mul>()) {
    add_factors(product->a, factors);
    add_factors(product->b, factors);
  } else if (!Halide::Internal::is_const_one(e)) {
    factors->push_back(e);
  }
}

/// Whether two products have the same factors, in any order.
bool is_same_product(const Expr& a, const Expr& b, const ir::Program& signature) {
  std::vector<Expr> left, right;
  add_factors(a, &left);
  add_factors(b, &right);
  return std::is_permutation(
      left.begin(), left.end(), right.begin(), right.end(),
      [&](const Expr& x, const Expr& y) { return always_equal(x, y, signature); });
}

}  // namespace

bool is_deviation(const ExpressionPtr& term, const std::vector<std::string>& summed,
                  const std::map<std::string, Range>& ranges, const Versions& versions,
                  const ir::Program& signature) {
  if (term->kind != ExpressionKind::Binary || term->op != Operator::Subtract || summed.empty())
    return false;
  const Expression& element = *term->operands[0];
  if (!is_access(element)) return false;

  // The mean as the quotient of a sum.
  Expr count = 1;
  ExpressionPtr mean = without_divisors(term->operands[1], &count);
  while (is_access(*mean)) {
    const Step* step = find_step(versions, mean->name);
    if (!step || step->reduction != ir::Reduction::None) break;
    mean = value_at(*step, mean->operands);
    if (!mean) return false;
    mean = without_divisors(mean, &count);
  }
  if (!is_access(*mean)) return false;
  const Step* sum = find_step(versions, mean->name);
  if (!sum || sum->reduction != ir::Reduction::Sum || !sum->initializes ||
      sum->reduced.size() != summed.size())
    return false;

  // Of the same elements.
  ExpressionPtr one = value_at(*sum, mean->operands);
  if (!one || !is_access(*one) || one->name != element.name ||
      one->operands.size() != element.operands.size())
    return false;
  Expr elements = 1;
  std::set<std::string> met;
  for (size_t d = 0; d < element.operands.size(); ++d) {
    const Expression &here = *element.operands[d], &there = *one->operands[d];
    const bool moves =
        here.kind == ExpressionKind::Name && std::count(summed.begin(), summed.end(), here.name);
    if (!moves) {
      bool mixed = std::any_of(summed.begin(), summed.end(),
                               [&](const std::string& index) { return mentions(here, index); });
      if (mixed || !equal(here, there)) return false;
      continue;
    }
    const bool reduced = there.kind == ExpressionKind::Name &&
                         std::count(sum->reduced.begin(), sum->reduced.end(), there.name);
    if (!reduced || !met.insert(here.name).second) return false;
    const Range& range = ranges.at(here.name);
    if (!always_equal(range, sum->ranges.at(there.name), signature)) return false;
    elements = elements * simplify_size(range.last - range.first + 1, signature);
  }
  return met.size() == summed.size() && is_same_product(count, elements, signature);
}

}  // namespace tc::lang
