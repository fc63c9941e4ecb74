#include "rewrite/scans/rescaled_sums.h"

#include "ir/expressions/simplify.h"

namespace tc::ir {

namespace {

/// Of a product without one of its factors; undefined where there is no other.
Expr product_without(std::vector<Factor> factors, size_t f) {
  factors.erase(factors.begin() + static_cast<long>(f));
  return factors.empty() ? Expr() : product_of(factors);
}

Expr exponential(const Expr& e) { return math("exp", e.type(), {e}); }

/// A term of an exponential below something else than its level, as a multiple of one below that.
/// Where the level is -infinity all terms are 0, and where both are infinite the same as below the
/// level.
struct BelowLevel {
  Expr term, level;

  BelowLevel(const std::vector<Addend>& exponents, const Expr& read, const Expr& subtracted)
      : term(Halide::select(read == identity(Reduction::Max, read.type()), make_zero(read.type()),
                            exponential(sum_of(exponents) - read))),
        level(Halide::select(read == subtracted && read == identity(Reduction::Min, read.type()),
                             make_one(read.type()), exponential(read - subtracted))) {}
};

}  // namespace

std::optional<RescaledTerm> find_rescaled(const std::vector<Factor>& factors,
                                          const std::string& result, const std::string& term,
                                          int64_t offset, const FindLevel& find_level) {
  // Where a result has a term first, and the other way round.
  const Expr of_term = make_variable(term) - static_cast<int>(offset);
  const Expr of_result = make_variable(result) + static_cast<int>(offset);
  auto at = [](const std::string& index, const Expr& place, const Expr& e) {
    return simplify_integers(substitute(index, place, e), {});
  };
  for (size_t f = 0; f < factors.size(); ++f) {
    const auto* call = factors[f].value.as<Call>();
    if (!call || factors[f].divides || math_name(call) != "exp") continue;
    const Expr others = product_without(factors, f);
    if (others.defined() && expr_uses_var(others, result)) continue;
    const std::vector<Addend> addends = addends_of(call->args[0]);
    for (size_t a = 0; a < addends.size(); ++a) {
      const Expr subtracted = addends[a].value;
      const bool falls = expr_uses_var(subtracted, term);
      if (!addends[a].minus || falls == expr_uses_var(subtracted, result)) continue;
      std::vector<Addend> exponents = addends;
      exponents.erase(exponents.begin() + static_cast<long>(a));
      const std::optional<Level> level = find_level(subtracted, exponents, falls);
      if (!level) continue;
      RescaledTerm found;
      found.falls = falls;
      found.level = *level;
      Expr first = factors[f].value, above;
      if (!equal(level->read, subtracted)) {
        const BelowLevel below(exponents, level->read, subtracted);
        first = below.term;
        above = below.level;
      }
      if (!falls) {
        found.value = at(result, of_term, others.defined() ? others * first : first);
        found.outside = above;
        return found;
      }
      found.level.read = substitute(term, make_variable(result), level->read);
      found.value = others;
      if (above.defined()) found.value = others.defined() ? others * above : above;
      if (!found.value.defined()) found.value = make_one(first.type());
      found.outside = at(term, of_result, first);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace tc::ir
