#include "rewrite/algebra/rescaled_sums.h"

#include <vector>

namespace tc::ir {

namespace {

void list_factors(const Expr& e, std::vector<Expr>& factors) {
  const auto* product = e.as<Mul>();
  if (!product) return factors.push_back(e);
  list_factors(product->a, factors);
  list_factors(product->b, factors);
}

/// The difference that e is the exponential of, if it is one.
const Sub* exponent(const Expr& e) {
  const auto* call = e.as<Call>();
  return call && math_name(call) == "exp" ? call->args[0].as<Sub>() : nullptr;
}

}  // namespace

std::optional<RescaledTerm> find_rescaled(
    const Expr& value, const std::string& result, const std::string& term,
    const std::function<bool(const Expr& level, const Expr& exponent, bool falls)>& is_level) {
  std::vector<Expr> factors;
  list_factors(value, factors);
  for (size_t f = 0; f < factors.size(); ++f) {
    const auto* difference = exponent(factors[f]);
    if (!difference) continue;
    RescaledTerm found;
    Expr others;
    for (size_t k = 0; k < factors.size(); ++k)
      if (k != f) others = others.defined() ? others * factors[k] : factors[k];
    if (others.defined() && expr_uses_var(others, result)) continue;
    const Expr &x = difference->a, &level = difference->b;
    if (!expr_uses_var(x, result) && is_level(level, x, false)) {
      found.level = level;
      found.value = substitute(result, make_variable(term), value);
      return found;
    }
    if (!expr_uses_var(x, term) && is_level(level, x, true)) {
      found.falls = true;
      found.level = substitute(term, make_variable(result), level);
      found.value = others.defined() ? others : make_one(value.type());
      found.outside = substitute(term, make_variable(result), factors[f]);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace tc::ir
