#include "rewrite/algebra/share_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
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

/// The indices that make two reads of one tensor the same; nothing where its places are no indices.
std::optional<Renaming> match(const Call* a, const Statement& first, const Call* b,
                              const Statement& second) {
  if (read_name(a) != read_name(b)) return std::nullopt;
  Renaming names;
  std::set<std::string> taken;
  for (size_t d = 0; d < a->args.size(); ++d) {
    const auto* x = a->args[d].as<Variable>();
    const auto* y = b->args[d].as<Variable>();
    if (!x || !y) return std::nullopt;
    const Iterator *here = find_index(first.domain, x->name),
                   *there = find_index(second.domain, y->name);
    if (!here || !there || !have_same_range(*here, *there)) return std::nullopt;
    auto known = names.emplace(y->name, x->name);
    if (known.first->second != x->name || (known.second && !taken.insert(x->name).second))
      return std::nullopt;
  }
  return names;
}

/// Of the factors that both have, those that depend on indices over which both sum and on which
/// nothing else depends.
std::optional<Common> find_common(const Statement& first, const Statement& second,
                                  const Renaming& names) {
  std::vector<Factor> mine = factors_of(first), theirs = factors_of(second);
  std::vector<std::pair<Factor, Factor>> both;
  for (auto a = mine.begin(); a != mine.end();) {
    auto b = std::find_if(theirs.begin(), theirs.end(), [&](const Factor& factor) {
      bool known = std::all_of(factor.indices.begin(), factor.indices.end(),
                               [&](const std::string& index) { return names.count(index) != 0; });
      return known && !factor.indices.empty() && factor.divides == a->divides &&
             equal(rename(factor.value, names), a->value);
    });
    if (b == theirs.end()) {
      ++a;
      continue;
    }
    both.emplace_back(*a, *b);
    theirs.erase(b);
    a = mine.erase(a);
  }
  Common common{{}, {}, names};
  common.first.outside = std::move(mine);
  common.second.outside = std::move(theirs);
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
    for (const Call* a : reads_of(first))
      for (const Call* b : reads_of(second)) {
        std::optional<Renaming> names = match(a, first, b, second);
        if (!names) continue;
        std::optional<Common> common = find_common(first, second, *names);
        if (common && is_worthwhile(*common, first) && !is_overwritten(*common, earlier, later) &&
            (!best || common->first.inside.size() > best->first.inside.size()))
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
