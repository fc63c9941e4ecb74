#include "rewrite/scans/scaled_terms.h"

#include <algorithm>

#include "ir/expressions/choices.h"
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

std::vector<Factor>::const_iterator find_factor(const std::vector<Factor>& factors,
                                                const Factor& factor) {
  return std::find_if(factors.begin(), factors.end(), [&](const Factor& other) {
    return other.divides == factor.divides && equal(other.value, factor.value);
  });
}

/// Takes out of some products the factors that all of them have.
std::vector<Factor> take_common(std::vector<std::vector<Factor>>& products) {
  std::vector<Factor> taken;
  const std::vector<Factor> first = products.front();
  for (const Factor& common : first) {
    const bool everywhere =
        std::all_of(products.begin(), products.end(), [&](const std::vector<Factor>& product) {
          return find_factor(product, common) != product.end();
        });
    if (!everywhere) continue;
    for (std::vector<Factor>& product : products) product.erase(find_factor(product, common));
    taken.push_back(common);
  }
  return taken;
}

/// The factors of a product whose sums, and choices, are products of what all their terms have and
/// of a sum, or a choice, of the rest: a * b * w + c * w has the factors w and a * b + c.
std::vector<Factor> common_factors_of(const Statement& statement) {
  std::vector<Factor> factors;
  for (const Factor& factor : factors_of(statement)) {
    std::vector<Addend> addends = factor.divides ? std::vector<Addend>() : addends_of(factor.value);
    const std::optional<Choice> choice = factor.divides ? std::nullopt : find_choice(factor.value);
    std::vector<std::vector<Factor>> products;
    auto list = [&](const Expr& term) {
      Statement product = statement;
      product.value = term;
      products.push_back(factors_of(product));
    };
    if (choice) {
      list(choice->yes);
      list(choice->no);
    } else if (addends.size() > 1) {
      for (const Addend& addend : addends) list(addend.value);
    } else {
      factors.push_back(factor);
      continue;
    }
    for (const Factor& common : take_common(products)) factors.push_back(common);
    const Type type = factor.value.type();
    auto rest_of = [&](const std::vector<Factor>& product) {
      return product.empty() ? make_one(type) : product_of(product);
    };
    for (size_t a = 0; !choice && a < addends.size(); ++a) addends[a].value = rest_of(products[a]);
    const Expr rest =
        choice ? choose_lazily(choice->condition, rest_of(products[0]), rest_of(products[1]))
               : sum_of(addends);
    Factor kept{rest, {}, false};
    for (const std::string& index : factor.indices)
      if (expr_uses_var(rest, index)) kept.indices.insert(index);
    factors.push_back(kept);
  }
  return factors;
}

}  // namespace

std::optional<ScaledTerm> find_scaled(const Statement& statement, const Expr& value,
                                      const std::string& result, const std::string& term) {
  if (!value.type().is_float()) return std::nullopt;
  Statement sum = statement;
  sum.value = value;
  ScaledTerm scaled;
  std::vector<Factor> inside;
  for (const Factor& factor : common_factors_of(sum)) {
    const bool of_result = factor.indices.count(result), of_term = factor.indices.count(term);
    (!of_result ? inside : of_term ? scaled.weights : scaled.factors).push_back(factor);
  }
  if (scaled.factors.empty() && scaled.weights.empty()) return std::nullopt;
  // Weighted sums that have the same terms are one scan, whatever they are multiplied by.
  if (!scaled.factors.empty() && !scaled.weights.empty()) {
    auto others = std::stable_partition(inside.begin(), inside.end(), [&](const Factor& factor) {
      return factor.indices.count(term) != 0;
    });
    scaled.factors.insert(scaled.factors.end(), others, inside.end());
    inside.erase(others, inside.end());
  }
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
