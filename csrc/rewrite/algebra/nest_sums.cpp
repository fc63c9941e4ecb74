#include "rewrite/algebra/nest_sums.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "machine/operation_costs.h"
#include "rewrite/algebra/contractions.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/domains/inside.h"
#include "rewrite/program_pass.h"
#include "rewrite/scans/find_scans.h"

namespace tc::ir {
namespace {

/// Searches of every statement after the first one, each of which knows what the others share.
constexpr int kSharingRounds = 2;

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

/// A statement that may be taken in steps.
struct Candidate {
  Term term;
  /// What scales every term may be what keeps their sum finite.
  std::vector<Factor> scales;
  Contraction contraction;
  double now = 0;              ///< operations of the text
  std::optional<double> most;  ///< operations from which on it is better left alone
  bool alone = false;
};

/// A product that was made.
struct Made {
  std::string tensor;
  std::vector<size_t> dimensions;  ///< by their place in the signature
};

class NestSums : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    std::map<std::string, int> writes;
    for (size_t s = 0; s < program_.statements.size(); ++s) {
      const Statement& statement = program_.statements[s];
      if (std::optional<Candidate> found = find(statement, writes))
        candidates_.emplace(s, std::move(*found));
      ++writes[statement.tensor];
    }
    if (candidates_.empty()) return;
    const double apart = decide(false);
    if (candidates_.size() > 1 && decide(true) >= apart) decide(false);
    count_uses();
    size_t s = 0;
    put_in_front(program_, [&](Statement& statement) {
      std::vector<Statement> made;
      const auto found = candidates_.find(s++);
      if (found != candidates_.end() && !found->second.alone)
        rewrite(statement, found->second, made);
      return made;
    });
  }

 private:
  std::optional<Candidate> find(const Statement& statement, std::map<std::string, int> writes) {
    if (!is_plain_sum(statement, program_)) return std::nullopt;
    Term term = find_term(statement);
    Statement product = statement;
    product.value = term.product;
    std::vector<Factor> factors = factors_of(product);
    const std::vector<Factor> joined = join_small(factors, statement.domain);
    if (std::count_if(joined.begin(), joined.end(), [](const Factor& factor) {
          return has_data(factor.value);
        }) < machine::kNestedFactors)
      return std::nullopt;
    const auto scaled = std::stable_partition(factors.begin(), factors.end(),
                                              [](const Factor& f) { return !f.indices.empty(); });
    std::vector<Factor> scales(scaled, factors.end());
    factors.erase(scaled, factors.end());
    if (factors.size() > 32 || statement.domain.size() > 32 || points_of(statement.domain) == 0)
      return std::nullopt;
    Contraction contraction(statement, program_, factors, machine_, table_,
                            [writes = std::move(writes)](const std::string& tensor) {
                              const auto count = writes.find(tensor);
                              return count == writes.end() ? 0 : count->second;
                            });
    Contraction::Limits limits;
    limits.bytes = program_.tensor(statement.tensor).type.bytes();
    std::optional<double> most;
    if (term.condition.defined()) {
      limits.conditional = true;
      limits.conditions = list_conditions(term.condition);
      // One with data may be read where those in front of it hold.
      if (limits.conditions.size() > 31 || has_data(term.condition)) {
        limits.conditions.clear();
        limits.needed = contraction.indices_in(term.condition);
      }
      for (size_t f = 0; f < factors.size(); ++f)
        if (rewrite::reads_outside(factors[f].value, program_, statement.domain))
          limits.fixed |= FactorSet{1} << f;
      most = scan_operations(program_, statement);
    }
    contraction.limit(limits);
    const double now = points_of(statement.domain) * static_cast<double>(joined.size());
    return Candidate{std::move(term), std::move(scales), std::move(contraction), now, most};
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

  /// Calls `visit` with every product that a statement makes or shares, those inside others behind
  /// them, as long as it returns true.
  template <class Visit>
  static void for_each_product(const Candidate& candidate, const Visit& visit) {
    auto go_on = [&](auto& self, const PartialProduct& product) -> void {
      for (FactorSet part : product.parts)
        if (product.makes(part) && visit(part)) self(self, candidate.contraction.product(part));
    };
    if (!candidate.alone) go_on(go_on, candidate.contraction.outermost());
  }

  /// Chooses products for all statements; returns what all take. `shared`: at first, what several
  /// could use is taken to cost each of them its share; else what those before it make is there.
  double decide(bool shared) {
    const auto number = [](const Candidate& candidate, FactorSet set) {
      return candidate.contraction.signature(set).number;
    };
    std::map<int, int> usable;
    if (shared)
      for (auto& [s, candidate] : candidates_) {
        std::set<int> numbers;
        for (FactorSet set : candidate.contraction.candidates())
          numbers.insert(number(candidate, set));
        for (int each : numbers) ++usable[each];
      }
    for (auto& [s, candidate] : candidates_)
      choose(candidate, [&](int n) { return shared && usable[n] ? 1.0 / usable[n] : 1.0; });
    for (int round = 0; candidates_.size() > 1 && round < kSharingRounds; ++round)
      for (auto& [s, candidate] : candidates_) {
        std::set<int> there;
        for (const auto& [other_s, other] : candidates_)
          if (&other != &candidate)
            for_each_product(other, [&, &of = other](FactorSet set) {
              return there.insert(number(of, set)).second;
            });
        choose(candidate, [&](int n) { return there.count(n) ? 0.0 : 1.0; });
      }
    double operations = 0;
    std::set<int> made;
    for (const auto& [s, candidate] : candidates_) {
      operations += candidate.alone ? candidate.now : candidate.contraction.outermost().cost;
      for_each_product(candidate, [&, &of = candidate](FactorSet set) {
        if (!made.insert(number(of, set)).second) return false;
        operations += of.contraction.product(set).cost;
        return true;
      });
    }
    return operations;
  }

  void choose(Candidate& candidate, const std::function<double(int)>& share) {
    const double operations = candidate.contraction.choose(share);
    candidate.alone =
        operations > machine::kNestedShare * candidate.now ||
        candidate.now - operations < static_cast<double>(machine_.least(machine::kNestedSavings)) ||
        (candidate.most && *candidate.most <= operations);
  }

  void count_uses() {
    for (const auto& [s, candidate] : candidates_)
      for_each_product(candidate, [&, &of = candidate](FactorSet set) {
        return ++uses_[of.contraction.signature(set).number] == 1;
      });
  }

  bool is_used_once(const Contraction& c, FactorSet set) const {
    const auto uses = uses_.find(c.signature(set).number);
    return uses == uses_.end() || uses->second == 1;
  }

  /// A product with the parts of its parts in place of those that are left to compute_operands:
  /// products of one factor with what has no other indices, for this statement alone.
  PartialProduct without_scaled(const Contraction& c, PartialProduct product) const {
    const std::vector<FactorSet> parts = std::exchange(product.parts, {});
    for (FactorSet part : parts) {
      bool scaled = false;
      if (product.makes(part) && is_used_once(c, part)) {
        const PartialProduct& inner = c.product(part);
        scaled = !inner.sums() &&
                 std::any_of(inner.parts.begin(), inner.parts.end(), [&](FactorSet each) {
                   return indices_of(c, each, inner) == inner.indices;
                 });
      }
      if (!scaled) {
        product.parts.push_back(part);
        continue;
      }
      const PartialProduct inner = without_scaled(c, c.product(part));
      product.parts.insert(product.parts.end(), inner.parts.begin(), inner.parts.end());
      product.alone |= inner.alone;
      product.conditions |= inner.conditions;
    }
    return product;
  }

  /// The indices of a part, in what multiplies it.
  static IndexSet indices_of(const Contraction& c, FactorSet part, const PartialProduct& product) {
    if (!product.makes(part))
      return c.indices_in(c.value(static_cast<size_t>(__builtin_ctz(part)), product.indices));
    IndexSet indices = 0;
    const IndexSet kept = c.product(part).kept;
    for (size_t i = 0; i < c.indices().size(); ++i)
      if (kept & bit(i)) indices |= product.indices & bit(i) ? bit(i) : c.indices()[i].function_of;
    return indices;
  }

  /// Leaves the statement the outermost sum.
  void rewrite(Statement& statement, const Candidate& candidate, std::vector<Statement>& made) {
    const Contraction& c = candidate.contraction;
    const PartialProduct& product = c.outermost();
    std::vector<Factor> scales = candidate.scales;
    std::vector<Factor> factors = make_parts(statement, candidate, product, scales, made);
    factors.insert(factors.end(), scales.begin(), scales.end());
    Statement left = statement;
    left.value = product_of(factors);
    left.domain.clear();
    for (size_t i = 0; i < statement.domain.size(); ++i)
      if (product.indices & bit(i)) left.domain.push_back(statement.domain[i]);
    if (reduced_indices(left).empty() && left.initializes) assign(left);
    const Term& term = candidate.term;
    if (term.condition.defined() && c.conditions() == 0)
      left.value = choose(term, term.condition, left.value);
    else
      left.value = under_conditions(candidate, product, left.value);
    statement = std::move(left);
  }

  static Expr choose(const Term& term, const Expr& condition, const Expr& value) {
    const Expr none = make_zero(value.type());
    return term.lazy ? choose_lazily(condition, value, none) : Select::make(condition, value, none);
  }

  /// The value where a product's conditions hold, and else 0.
  static Expr under_conditions(const Candidate& candidate, const PartialProduct& product,
                               const Expr& value) {
    Expr all;
    for (size_t k = 0; k < candidate.contraction.conditions(); ++k) {
      if (!(product.conditions >> k & 1)) continue;
      const Expr condition = candidate.contraction.condition(k, product.indices);
      all = all.defined() ? all && condition : condition;
    }
    return all.defined() ? choose(candidate.term, all, value) : value;
  }

  /// What a product multiplies, after statements that make it.
  std::vector<Factor> make_parts(const Statement& statement, const Candidate& candidate,
                                 const PartialProduct& chosen, std::vector<Factor>& scales,
                                 std::vector<Statement>& made) {
    const Contraction& c = candidate.contraction;
    const PartialProduct product = without_scaled(c, chosen);
    std::vector<Factor> factors;
    for (FactorSet part : product.parts) {
      if (!product.makes(part)) {
        const size_t f = static_cast<size_t>(__builtin_ctz(part));
        factors.push_back({c.value(f, product.indices), {}, c.factors()[f].divides});
        continue;
      }
      const Made& temporary = make(statement, candidate, part,
                                   order_indices(statement, c, part, product), scales, made);
      std::vector<Expr> places;
      for (size_t dimension : temporary.dimensions) {
        const size_t i = static_cast<size_t>(c.signature(part).indices[dimension]);
        const ContractionIndex& index = c.indices()[i];
        places.push_back(product.indices & bit(i) ? make_variable(index.iterator.name)
                                                  : index.place);
      }
      factors.push_back({read(program_.tensor(temporary.tensor), places), {}, false});
    }
    return factors;
  }

  /// The indices of a part from the outermost to the innermost. What is multiplied element by
  /// element has a vector of results along it, where all parts do; and an operand of a product of
  /// matrices does not lie along the sum. Else neighbours in what is read are neighbours in what is
  /// written; of a window, whose sums move along results and terms alike, by the largest read.
  std::vector<size_t> order_indices(const Statement& statement, const Contraction& c,
                                    FactorSet part, const PartialProduct& product) const {
    const std::vector<FactorSet>& parts = product.parts;
    const IndexSet kept = c.product(part).kept;
    IndexSet common = 0;
    if (parts.size() > 1 && indices_of(c, part, product) == product.indices) {
      common = kept & product.kept;
      for (FactorSet each : parts) common &= indices_of(c, each, product);
    }
    struct Rank {
      bool in_common, is_result;
      int64_t rows;
      double extent;
    };
    bool is_window = false;
    for (size_t i = 0; i < c.indices().size(); ++i)
      is_window = is_window || ((kept & bit(i)) && !c.indices()[i].pivot.empty());
    const Call* largest = is_window ? largest_read(statement) : nullptr;
    std::vector<std::pair<Rank, size_t>> ranked;
    for (size_t i = 0; i < c.indices().size(); ++i) {
      if (!(kept & bit(i))) continue;
      const ContractionIndex& index = c.indices()[i];
      const auto extent = static_cast<double>(extent_of(index.iterator));
      const bool fills = extent >= machine::kCostedLanes;
      Rank rank{fills && (common & bit(i)), false, 0, extent};
      if (largest) {
        rank.rows = -stride_of(*largest, index);
      } else {
        const bool is_place = index.function_of;
        rank.is_result = !is_place && (product.kept & bit(i));
        // Those too short for a vector are no rows.
        rank.rows = is_place ? -1 : fills ? rows_along(index.iterator.name, statement) : 0;
      }
      ranked.push_back({rank, i});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
      const Rank &x = a.first, &y = b.first;
      return std::tuple(x.is_result, x.rows) < std::tuple(y.is_result, y.rows);
    });
    // One of those in common is innermost.
    auto best = ranked.end();
    for (auto each = ranked.begin(); each != ranked.end(); ++each)
      if (each->first.in_common &&
          (best == ranked.end() || std::pair(each->first.rows, each->first.extent) >
                                       std::pair(best->first.rows, best->first.extent)))
        best = each;
    if (best != ranked.end()) std::rotate(best, best + 1, ranked.end());
    std::vector<size_t> order;
    for (const auto& [rank, i] : ranked) order.push_back(i);
    return order;
  }

  /// The read of most elements; null where there is none.
  const Call* largest_read(const Statement& statement) const {
    const Call* largest = nullptr;
    double most = 0;
    for (const Call* read : reads_of(statement)) {
      std::set<std::string> indices;
      for (const Expr& subscript : read->args) indices.merge(variables_of(subscript));
      const double elements = points_of(statement.domain, indices);
      if (!layouts_.count(read_name(read)) || (largest && elements <= most)) continue;
      largest = read;
      most = elements;
    }
    return largest;
  }

  /// How far apart a read's elements lie along the dimension that an index moves in; of one that
  /// it does not have, farther than any.
  int64_t stride_of(const Call& read, const ContractionIndex& index) const {
    const std::set<std::string> moving =
        index.function_of ? variables_of(index.place) : std::set{index.iterator.name};
    for (size_t d = 0; d < read.args.size(); ++d)
      for (const std::string& name : moving)
        if (expr_uses_var(read.args[d], name)) return layouts_.at(read_name(&read)).strides[d];
    return std::numeric_limits<int64_t>::max();
  }

  /// How many of the statement's reads have neighbours along that index.
  int rows_along(const std::string& index, const Statement& statement) const {
    int rows = 0;
    for (const Call* read : reads_of(statement)) {
      const auto layout = layouts_.find(read_name(read));
      if (layout == layouts_.end()) continue;
      for (size_t d = 0; d < read->args.size(); ++d)
        rows += layout->second.strides[d] == 1 && expr_uses_var(read->args[d], index);
    }
    return rows;
  }

  const Made& make(const Statement& statement, const Candidate& candidate, FactorSet set,
                   const std::vector<size_t>& kept, std::vector<Factor>& scales,
                   std::vector<Statement>& made) {
    const Contraction& c = candidate.contraction;
    const Signature& signature = c.signature(set);
    if (auto known = made_.find(signature.number); known != made_.end()) return known->second;
    const PartialProduct product = without_scaled(c, c.product(set));
    // What others use as well is not scaled, nor what that is made of.
    const bool own = is_used_once(c, set);
    std::vector<Factor> unscaled;
    std::vector<Factor> factors =
        make_parts(statement, candidate, product, own ? scales : unscaled, made);
    if (product.sums() && own) {
      factors.insert(factors.end(), scales.begin(), scales.end());
      scales.clear();
    }
    Statement sum = statement;
    sum.initializes = true;
    sum.meaning.clear();
    sum.value = under_conditions(candidate, product, product_of(factors));
    sum.domain.clear();
    std::string over;
    for (size_t i = 0; i < statement.domain.size(); ++i)
      if (product.indices & ~product.kept & bit(i)) {
        sum.domain.push_back(statement.domain[i]);
        over += statement.domain[i].name;
      }
    std::vector<Iterator> indices;
    Made temporary;
    for (size_t i : kept) {
      indices.push_back(c.indices()[i].iterator);
      indices.back().reduction = false;
      const auto place =
          std::find(signature.indices.begin(), signature.indices.end(), static_cast<int>(i));
      temporary.dimensions.push_back(static_cast<size_t>(place - signature.indices.begin()));
    }
    sum.domain.insert(sum.domain.begin(), indices.begin(), indices.end());
    if (over.empty()) assign(sum);
    ir::write_temporary(program_, sum,
                        statement.tensor + (over.empty() ? ".product" : ".over_" + over),
                        program_.tensor(statement.tensor).type, indices);
    temporary.tensor = sum.tensor;
    layouts_[sum.tensor] = row_major(program_.tensor(sum.tensor));
    made.push_back(std::move(sum));
    return made_[signature.number] = std::move(temporary);
  }

  ContractionTable table_;
  std::map<size_t, Candidate> candidates_;
  std::map<int, int> uses_;  ///< of every product, by the number of its signature
  std::map<int, Made> made_;
};

}  // namespace

void nest_sums(Program& program, Layouts& layouts, const CpuMachine& machine) {
  NestSums(program, layouts, machine).run();
}

}  // namespace tc::ir
