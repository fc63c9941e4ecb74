#include "rewrite/algebra/share_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/algebra/nested_operations.h"
#include "rewrite/operands/subscript_sums.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// Indices of one statement by those of another.
using Renaming = std::map<std::string, std::string>;

Expr rename(const Expr& e, const Renaming& names) {
  std::map<std::string, Expr> replacements;
  for (const auto& [from, to] : names) replacements[from] = make_variable(to);
  return substitute(replacements, e);
}

/// What two statements sum alike; the second one's in the indices of both.
struct Common {
  InnerSum first, second;
  Renaming names;  ///< the first one's indices by the second one's
};

/// A factor with its indices in order of appearance, and with their numbers for their names: those
/// that are alike up to the names of indices.
struct Numbered {
  Factor factor;
  std::vector<std::string> indices;
  Expr value;
};

std::vector<Numbered> number_factors(const Statement& statement) {
  std::vector<Numbered> all;
  for (Factor& factor : factors_of(statement)) {
    Numbered made{std::move(factor), {}, {}};
    Renaming numbers;
    walk(made.factor.value, [&](const Expr& e) {
      const auto* index = e.as<Variable>();
      if (index && made.factor.indices.count(index->name) &&
          numbers.emplace(index->name, std::to_string(numbers.size())).second)
        made.indices.push_back(index->name);
      return true;
    });
    made.value = rename(made.factor.value, numbers);
    all.push_back(std::move(made));
  }
  return all;
}

/// Whether two factors are the same once indices are; adds these to those that are known to be.
bool match(const Numbered& a, const Statement& first, const Numbered& b, const Statement& second,
           Renaming& names) {
  if (a.indices.empty() || a.indices.size() != b.indices.size() ||
      a.factor.divides != b.factor.divides || !equal(a.value, b.value))
    return false;
  Renaming made = names;
  for (size_t k = 0; k < a.indices.size(); ++k) {
    const std::string &here = a.indices[k], &there = b.indices[k];
    const auto known = made.find(there);
    if (known != made.end() ? known->second != here
                            : std::any_of(made.begin(), made.end(),
                                          [&](const auto& pair) { return pair.second == here; }))
      return false;
    if (!have_same_range(*find_index(first.domain, here), *find_index(second.domain, there)))
      return false;
    made[there] = here;
  }
  names = std::move(made);
  return true;
}

/// Of the factors that both have, once these two are the same, those that depend on indices over
/// which both sum and on which nothing else depends.
std::optional<Common> find_common(const Statement& first, std::vector<Numbered> mine,
                                  const Statement& second, std::vector<Numbered> theirs, size_t a,
                                  size_t b) {
  Renaming names;
  std::vector<std::pair<Factor, Factor>> both;
  const auto take = [&](size_t here, size_t there) {
    if (!match(mine[here], first, theirs[there], second, names)) return false;
    both.emplace_back(mine[here].factor, theirs[there].factor);
    mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(here));
    theirs.erase(theirs.begin() + static_cast<std::ptrdiff_t>(there));
    return true;
  };
  if (!take(a, b)) return std::nullopt;
  for (size_t here = 0; here < mine.size();) {
    bool taken = false;
    for (size_t there = 0; there < theirs.size() && !taken; ++there) taken = take(here, there);
    if (!taken) ++here;
  }
  Common common{{}, {}, names};
  for (Numbered& factor : mine) common.first.outside.push_back(std::move(factor.factor));
  for (Numbered& factor : theirs) common.second.outside.push_back(std::move(factor.factor));
  auto depends = [](const std::vector<Factor>& factors, const std::string& index) {
    return std::any_of(factors.begin(), factors.end(),
                       [&](const Factor& factor) { return factor.indices.count(index) != 0; });
  };
  for (const auto& [there, here] : names) {
    if (!find_index(first.domain, here)->reduction ||
        !find_index(second.domain, there)->reduction || depends(common.first.outside, here) ||
        depends(common.second.outside, there))
      continue;
    common.first.summed.insert(here);
    common.second.summed.insert(there);
  }
  for (auto& [a, b] : both) {
    bool inside = std::any_of(a.indices.begin(), a.indices.end(), [&](const std::string& index) {
      return common.first.summed.count(index) != 0;
    });
    (inside ? common.first.inside : common.first.outside).push_back(a);
    (inside ? common.second.inside : common.second.outside).push_back(b);
  }
  // Only indices of the common part are summed with it.
  for (InnerSum* sum : {&common.first, &common.second}) {
    const std::set<std::string> both_sum = std::exchange(sum->summed, {});
    for (const Factor& factor : sum->inside)
      for (const std::string& index : factor.indices)
        (both_sum.count(index) ? sum->summed : sum->kept).insert(index);
  }
  if (common.first.summed.empty()) return std::nullopt;
  return common;
}

/// Whether a value is read at sums of indices.
bool has_sums(const Expr& value, const std::vector<Iterator>& domain) {
  const std::vector<Sum> sums = find_sums(value, domain).sums;
  return std::any_of(sums.begin(), sums.end(), [](const Sum& sum) { return sum.terms.size() > 1; });
}

class ShareSums : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    std::vector<Statement>& statements = program_.statements;
    for (size_t later = 1; later < statements.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier)
        if (auto common = find(earlier, later)) {
          // What was put in front may be all of what a later one sums.
          later += share(*common, earlier, later);
          break;
        }
    number_statements(program_);
  }

 private:
  std::optional<Common> find(size_t earlier, size_t later) const {
    const Statement &first = program_.statements[earlier], &second = program_.statements[later];
    if (!is_plain_sum(first, program_) || !is_plain_sum(second, program_) ||
        program_.tensor(first.tensor).type != program_.tensor(second.tensor).type)
      return std::nullopt;
    std::optional<Common> best;
    const std::vector<Numbered> mine = number_factors(first), theirs = number_factors(second);
    for (size_t a = 0; a < mine.size(); ++a)
      for (size_t b = 0; b < theirs.size(); ++b) {
        std::optional<Common> common = find_common(first, mine, second, theirs, a, b);
        if (common && (!best || common->first.inside.size() > best->first.inside.size()) &&
            is_worthwhile(*common, first) && !is_overwritten(*common, earlier, later) &&
            costs_less(*common, earlier, later))
          best = common;
      }
    return best;
  }

  bool is_worthwhile(const Common& common, const Statement& first) const {
    const double terms = points_of(first.domain, common.first.summed);
    return terms >= static_cast<double>(machine_.least(machine::kSharedTerms)) &&
           terms * points_of(first.domain, common.first.kept) >=
               static_cast<double>(machine_.least(machine::kSharedSavings));
  }

  /// Whether two sums, each in the order of its own, cost more than the common one. That is so
  /// where a factor has all its indices, and is read once. Of a product X(n, d)*Y(m, d), either sum
  /// may have one of X or of Y alone inside, which takes fewer operations, and of X(i + r, j + s),
  /// which has fewer elements than points, one over r or s.
  bool costs_less(const Common& common, size_t earlier, size_t later) const {
    const InnerSum& inner = common.first;
    const std::vector<Iterator>& domain = program_.statements[earlier].domain;
    if (std::any_of(inner.inside.begin(), inner.inside.end(), [&](const Factor& factor) {
          return factor.indices.size() == inner.summed.size() + inner.kept.size() &&
                 !has_sums(factor.value, domain);
        }))
      return true;
    Program shared = program_;
    Layouts layouts = layouts_;
    const size_t added = ShareSums(shared, layouts, machine_).share(common, earlier, later);
    const auto cost = [&](const std::vector<Statement>& statements) {
      return operations_of(nested(statements, shared, layouts, machine_));
    };
    std::vector<Statement> together = {shared.statements[earlier],
                                       shared.statements[later + added]};
    if (added) together.insert(together.begin() + 1, shared.statements[earlier + 1]);
    return cost(together) < cost({program_.statements[earlier], program_.statements[later]});
  }

  /// Whether a statement from the earlier one on changes what the later one sums.
  bool is_overwritten(const Common& common, size_t earlier, size_t later) const {
    for (size_t s = earlier; s < later; ++s)
      for (const Factor& factor : common.first.inside)
        if (ir::reads(factor.value, program_.statements[s].tensor)) return true;
    return false;
  }

  /// Returns how many statements were added.
  size_t share(const Common& common, size_t earlier, size_t later) {
    std::vector<Statement>& statements = program_.statements;
    Statement &first = statements[earlier], &second = statements[later];
    std::optional<Statement> added;
    if (!is_whole(common, earlier, later))
      added = take_out(common.first, first, program_, layouts_);
    const Statement& sum = added ? *added : first;
    std::vector<Expr> place = sum.subscripts;
    Renaming back;
    for (const auto& [there, here] : common.names) back[here] = there;
    for (Expr& index : place) index = rename(index, back);
    read_instead(common.second, program_.tensor(sum.tensor), place, second);
    if (!added) return 0;
    statements.insert(statements.begin() + static_cast<std::ptrdiff_t>(earlier), *added);
    return 1;
  }

  /// Whether the earlier one's result is the common part, also while the later one runs.
  bool is_whole(const Common& common, size_t earlier, size_t later) const {
    const Statement& first = program_.statements[earlier];
    if (!first.initializes || !common.first.outside.empty()) return false;
    for (const Iterator& it : first.domain)
      if (it.reduction && !common.first.summed.count(it.name)) return false;
    for (const Expr& subscript : first.subscripts) {
      const auto* index = subscript.as<Variable>();
      if (!index || !common.first.kept.count(index->name)) return false;
    }
    for (size_t s = earlier + 1; s <= later; ++s)
      if (program_.statements[s].tensor == first.tensor) return false;
    return true;
  }
};

}  // namespace

void share_sums(Program& program, Layouts& layouts, const CpuMachine& machine) {
  ShareSums(program, layouts, machine).run();
}

}  // namespace tc::ir
