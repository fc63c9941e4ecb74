#include "lang/shared_factors.h"

#include <utility>

#include "lang/expressions.h"

namespace tc::lang {
namespace {

using Changes = std::function<bool(const ExpressionPtr&)>;

bool is_binary(const Expression& e, Operator op) {
  return e.kind == ExpressionKind::Binary && e.op == op;
}

/// Integers divide otherwise, and what derivatives are made of has no type and is a float.
bool is_integer(const Expression& e) { return e.type.bits() != 0 && !e.type.is_float(); }

class Factorization {
 public:
  explicit Factorization(const Changes& changes) : changes_(changes) {}

  /// Multiplies what there is by `e`, or divides it.
  void take(const ExpressionPtr& e, bool divides) {
    bool looks_through = !is_integer(*e);
    if (looks_through && (is_binary(*e, Operator::Multiply) || is_binary(*e, Operator::Divide))) {
      take(e->operands[0], divides);
      take(e->operands[1], divides != is_binary(*e, Operator::Divide));
    } else if (looks_through && e->kind == ExpressionKind::Unary && e->op == Operator::Negate) {
      shared.negative = !shared.negative;
      take(e->operands[0], divides);
    } else if (!changes_(e)) {
      (divides ? shared.divisors : shared.factors).push_back(e);
    } else if (shared.term) {
      shared.term = binary(divides ? Operator::Divide : Operator::Multiply, shared.term, e);
    } else {
      shared.term = divides ? binary(Operator::Divide, real(1), e) : e;
    }
  }

  SharedFactors shared;

 private:
  const Changes& changes_;
};

}  // namespace

ExpressionPtr SharedFactors::apply(ExpressionPtr sum) const {
  for (const ExpressionPtr& factor : factors) sum = binary(Operator::Multiply, sum, factor);
  for (const ExpressionPtr& divisor : divisors) sum = binary(Operator::Divide, sum, divisor);
  return negative ? negate(sum) : sum;
}

SharedFactors find_shared_factors(const ExpressionPtr& term, const Changes& changes) {
  Factorization factorization(changes);
  factorization.take(term, false);
  if (!factorization.shared.term) return {term, false, {}, {}};
  return std::move(factorization.shared);
}

}  // namespace tc::lang
