#include "rewrite/algebra/nest_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/find_scans.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/domains/inside.h"
#include "rewrite/program_pass.h"

namespace tc::ir {
namespace {

using Indices = std::set<std::string>;

/// With the operations of both statements.
struct Candidate {
  InnerSum inner;
  double operations = 0;
};

/// A product, and the condition under which it is a term.
struct Term {
  Expr product;
  Expr condition;  ///< undefined: always
  bool lazy = false;
};

Term find_term(const Statement& statement) {
  const std::optional<Choice> choice = find_choice(statement.value);
  if (!choice || !is_const_zero(choice->no)) return {statement.value, {}, false};
  return {choice->yes, choice->condition, !statement.value.as<Select>()};
}

class NestSums : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// Leaves the statement the outermost sum, and returns those in front of it.
  std::vector<Statement> rewrite(Statement& statement) {
    std::vector<Statement> made;
    while (std::optional<Candidate> candidate = choose(statement)) {
      const Term term = find_term(statement);
      Statement sum = take_out(candidate->inner, statement, program_, layouts_);
      if (term.condition.defined()) {
        const Expr none = make_zero(statement.value.type());
        statement.value = term.lazy ? choose_lazily(term.condition, statement.value, none)
                                    : Select::make(term.condition, statement.value, none);
      }
      for (Statement& below : rewrite(sum)) made.push_back(std::move(below));
      made.push_back(std::move(sum));
    }
    return made;
  }

 private:
  std::optional<Candidate> choose(const Statement& statement) const {
    if (!is_plain_sum(statement, program_)) return std::nullopt;
    const Term term = find_term(statement);
    Statement product = statement;
    product.value = term.product;
    const std::vector<Factor> factors = join_small(factors_of(product), statement.domain);
    if (std::count_if(factors.begin(), factors.end(), [](const Factor& factor) {
          return has_data(factor.value);
        }) < machine::kNestedFactors)
      return std::nullopt;

    const double now = points_of(statement.domain) * static_cast<double>(factors.size());
    std::optional<Candidate> best;
    for (const Iterator& it : statement.domain) {
      if (!it.reduction) continue;
      std::optional<Candidate> candidate = sum_first(statement, factors, term.condition, it.name);
      if (candidate && term.condition.defined() && !may_be_unconditional(*candidate, statement))
        continue;
      if (candidate && (!best || candidate->operations < best->operations)) best = candidate;
    }
    if (!best || best->operations > machine::kNestedShare * now ||
        now - best->operations < static_cast<double>(machine_.least(machine::kNestedSavings)))
      return std::nullopt;
    if (term.condition.defined())
      if (const auto scan = scan_operations(program_, statement); scan && *scan <= best->operations)
        return std::nullopt;
    return best;
  }

  /// Whether a sum may be made at all its points, also those that a condition leaves out, whose
  /// number no result or operand may have.
  bool may_be_unconditional(const Candidate& candidate, const Statement& statement) const {
    const double bytes = points_of(statement.domain, candidate.inner.kept) *
                         program_.tensor(statement.tensor).type.bytes();
    return bytes <= machine::kNestedBytes &&
           std::none_of(candidate.inner.inside.begin(), candidate.inner.inside.end(),
                        [&](const Factor& factor) {
                          return rewrite::reads_outside(factor.value, program_, statement.domain);
                        });
  }

  /// With factors that have an index of the reduction as parts of others that have all their
  /// indices, where these have few points beside the sum: compute_operands multiplies them first.
  static std::vector<Factor> join_small(std::vector<Factor> factors,
                                        const std::vector<Iterator>& domain) {
    const double few =
        (1 - machine::kNestedShare) * points_of(domain) / machine::kElementOperations;
    auto is_summed = [&](const std::string& index) { return find_index(domain, index)->reduction; };
    join_factors(factors, [&](const Factor& factor, const Factor& into) {
      const bool summed = std::any_of(factor.indices.begin(), factor.indices.end(), is_summed);
      return summed && points_of(domain, into.indices) <= few ? 0.0 : -1.0;
    });
    return factors;
  }

  /// The factors that depend on `index`, summed over it and over all that only they depend on. The
  /// condition stays with the others.
  static std::optional<Candidate> sum_first(const Statement& statement,
                                            const std::vector<Factor>& factors,
                                            const Expr& condition, const std::string& index) {
    Candidate candidate;
    InnerSum& inner = candidate.inner;
    Indices outside;
    if (condition.defined())
      for (const Iterator& it : statement.domain)
        if (expr_uses_var(condition, it.name)) outside.insert(it.name);
    if (outside.count(index)) return std::nullopt;
    for (const Factor& factor : factors) {
      // What scales every term may be what keeps their sum finite.
      bool goes_inside = factor.indices.empty() || factor.indices.count(index);
      (goes_inside ? inner.inside : inner.outside).push_back(factor);
      (goes_inside ? inner.kept : outside).insert(factor.indices.begin(), factor.indices.end());
    }
    if (inner.kept.empty() || inner.outside.empty()) return std::nullopt;
    Indices rest;  // of the domain, without what is summed
    for (const Iterator& it : statement.domain) {
      bool summed = it.reduction && inner.kept.count(it.name) && !outside.count(it.name);
      (summed ? inner.summed : rest).insert(it.name);
    }
    const auto products = std::count_if(inner.inside.begin(), inner.inside.end(),
                                        [](const Factor& f) { return !f.indices.empty(); });
    if (products == 1 && inner.kept.size() == statement.domain.size()) return std::nullopt;
    candidate.operations =
        points_of(statement.domain, inner.kept) * static_cast<double>(inner.inside.size()) +
        points_of(statement.domain, rest) * static_cast<double>(inner.outside.size() + 1);
    for (const std::string& summed : inner.summed) inner.kept.erase(summed);
    candidate.operations += points_of(statement.domain, inner.kept) * machine::kElementOperations;
    return candidate;
  }
};

}  // namespace

void nest_sums(Program& program, Layouts& layouts, const CpuMachine& machine) {
  NestSums pass(program, layouts, machine);
  put_in_front(program, [&](Statement& statement) { return pass.rewrite(statement); });
}

}  // namespace tc::ir
