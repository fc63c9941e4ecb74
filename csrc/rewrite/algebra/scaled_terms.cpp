#include "rewrite/algebra/scaled_terms.h"

#include <algorithm>

#include "poly/index_sets.h"

namespace tc::ir {

namespace {

/// Whether an integer is 0 at no point of the domain, as far as indices say.
bool is_never_zero(const Expr& e, const std::vector<Iterator>& domain) {
  poly::Context context;
  const std::optional<isl::set> zeros = poly::IndexSets(context.get(), domain).where(e == 0);
  const bool never = zeros && zeros->is_empty();
  context.require_memory();
  return never;
}

}  // namespace

std::optional<ScaledTerm> find_scaled(const Statement& statement, const Expr& value,
                                      const std::string& result, const std::string& term) {
  if (!value.type().is_float()) return std::nullopt;
  Statement sum = statement;
  sum.value = value;
  ScaledTerm scaled;
  std::vector<Factor> inside;
  for (const Factor& factor : factors_of(sum)) {
    if (factor.indices.count(result) && factor.indices.count(term)) return std::nullopt;
    (factor.indices.count(result) ? scaled.factors : inside).push_back(factor);
  }
  if (scaled.factors.empty()) return std::nullopt;
  scaled.value = inside.empty() ? make_one(value.type()) : product_of(inside);
  return scaled;
}

bool keep_zero(const std::vector<Factor>& factors, const std::vector<Iterator>& domain) {
  return std::all_of(factors.begin(), factors.end(), [&](const Factor& factor) {
    const auto* cast = factor.value.as<Cast>();
    return cast && cast->value.type().is_int_or_uint() && cast->type.bits() >= 32 &&
           (!factor.divides || is_never_zero(cast->value, domain));
  });
}

}  // namespace tc::ir
