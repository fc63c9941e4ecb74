#include "rewrite/algebra/nest_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/program_pass.h"

namespace tc::ir {
namespace {

using Indices = std::set<std::string>;

/// With the operations of both statements.
struct Candidate {
  InnerSum inner;
  double operations = 0;
};

class NestSums : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// Leaves the statement the outermost sum, and returns those in front of it.
  std::vector<Statement> rewrite(Statement& statement) {
    std::vector<Statement> made;
    while (std::optional<Candidate> candidate = choose(statement)) {
      Statement sum = take_out(candidate->inner, statement, program_, layouts_);
      for (Statement& below : rewrite(sum)) made.push_back(std::move(below));
      made.push_back(std::move(sum));
    }
    return made;
  }

 private:
  std::optional<Candidate> choose(const Statement& statement) const {
    if (!is_plain_sum(statement, program_)) return std::nullopt;
    const std::vector<Factor> factors = join_small(factors_of(statement), statement.domain);
    if (std::count_if(factors.begin(), factors.end(), [](const Factor& factor) {
          return has_data(factor.value);
        }) < machine::kNestedFactors)
      return std::nullopt;

    const double now = points_of(statement.domain) * static_cast<double>(factors.size());
    std::optional<Candidate> best;
    for (const Iterator& it : statement.domain) {
      if (!it.reduction) continue;
      std::optional<Candidate> candidate = sum_first(statement, factors, it.name);
      if (candidate && (!best || candidate->operations < best->operations)) best = candidate;
    }
    if (!best || best->operations > machine::kNestedShare * now ||
        now - best->operations < static_cast<double>(machine_.least(machine::kNestedSavings)))
      return std::nullopt;
    return best;
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

  /// The factors that depend on `index`, summed over it and over all that only they depend on.
  static std::optional<Candidate> sum_first(const Statement& statement,
                                            const std::vector<Factor>& factors,
                                            const std::string& index) {
    Candidate candidate;
    InnerSum& inner = candidate.inner;
    Indices outside;
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
