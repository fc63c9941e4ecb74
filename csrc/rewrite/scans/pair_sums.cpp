#include "rewrite/scans/pair_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "rewrite/program_pass.h"
#include "rewrite/scans/prefix_reductions.h"
#include "rewrite/scans/split_addends.h"

namespace tc::ir {

namespace {

using Indices = std::set<std::string>;

/// Of the sums over what lies between the indices.
struct Between {
  Expr states, adjoints;  ///< terms of these sums
  /// Of a step, with its weight, and of the term that a step has first.
  Expr increment, first_increment;
  Expr first;  ///< that term
  std::vector<Factor> outside;
};

/// The sums for one point of an index of the reduction.
struct Inner {
  Statement sum;  ///< but for its tensor
  Prefix prefix;
  double operations = 0;
  std::optional<Between> between;
};

Indices indices_of(const Expr& e, const Statement& statement) {
  Indices found;
  if (!e.defined()) return found;
  for (const Iterator& it : statement.domain)
    if (expr_uses_var(e, it.name)) found.insert(it.name);
  return found;
}

bool reads_at(const Expr& e, const std::string& index) {
  return any<Call>(e, [&](const Call* call) {
    return !read_name(call).empty() &&
           std::any_of(call->args.begin(), call->args.end(),
                       [&](const Expr& subscript) { return expr_uses_var(subscript, index); });
  });
}

class SumPairs : public ProgramPass {
 public:
  SumPairs(Program& program, Layouts& layouts, const CpuMachine& machine)
      : ProgramPass(program, layouts, machine), reductions_(program) {}

  /// Leaves the statement the outermost sum, and returns those in front of it.
  std::vector<Statement> rewrite(Statement& statement) {
    if (reductions_.go_on(statement)) return {};
    auto parts =
        split_until(statement, [&](const Statement& part) { return choose(part).has_value(); });
    if (!parts) return {};
    std::vector<Statement> made;
    for (Statement& part : *parts) {
      for (Statement& below : apply(part, *choose(part))) made.push_back(std::move(below));
      made.push_back(part);
    }
    statement = made.back();
    made.pop_back();
    return made;
  }

 private:
  /// The cheapest, or one that is taken apart between the indices; nothing where that pays little.
  std::optional<Inner> choose(const Statement& statement) const {
    if (!is_plain_sum(statement, program_) || reduced_indices(statement).size() < 2 ||
        reductions_.find(statement))
      return std::nullopt;
    Statement product = statement;
    if (const auto choice = find_choice(product.value)) product.value = choice->yes;
    const double now =
        points_of(statement.domain) * static_cast<double>(factors_of(product).size());
    std::optional<Inner> best;
    auto consider = [&](std::optional<Inner> inner) {
      if (!inner || inner->operations > machine::kNestedShare * now ||
          now - inner->operations < static_cast<double>(machine_.least(machine::kNestedSavings)))
        return;
      inner->between = find_between(*inner);
      if (!best || (inner->between && !best->between) ||
          (inner->between.has_value() == best->between.has_value() &&
           inner->operations < best->operations))
        best = std::move(inner);
    };
    const std::vector<Iterator> reduced = reduced_indices(statement);
    for (const Iterator& it : reduced)
      consider(
          find_inner(statement, it, [&](const Iterator& other) { return other.name == it.name; }));
    if (best || reduced.size() < 3) return best;
    // Levels have no index of the reduction.
    for (const Iterator& it : reduced)
      for (const Iterator& term : reduced)
        if (it.name != term.name)
          consider(find_inner(statement, it,
                              [&](const Iterator& other) { return other.name != term.name; }));
    return best;
  }

  std::vector<Statement> apply(Statement& statement, const Inner& inner) {
    if (inner.between) return sum_between(statement, inner, *inner.between);
    return {sum_inner(statement, inner)};
  }

  /// With results for all points of the index and of those that it keeps.
  template <class Keeps>
  std::optional<Inner> find_inner(const Statement& statement, const Iterator& index,
                                  const Keeps& keeps) const {
    Inner inner;
    inner.sum = statement;
    inner.sum.initializes = true;
    inner.sum.meaning.clear();
    inner.sum.subscripts.clear();
    for (Iterator& it : inner.sum.domain) {
      if (keeps(it)) it.reduction = false;
      if (!it.reduction) inner.sum.subscripts.push_back(make_variable(it.name));
    }
    std::optional<Prefix> prefix = reductions_.find(inner.sum);
    if (!prefix || prefix->result.name != index.name) return std::nullopt;
    inner.operations = operations_of(inner.sum, *prefix) + points_of(kept_indices(inner.sum));
    inner.prefix = std::move(*prefix);
    return inner;
  }

  Statement sum_inner(Statement& statement, const Inner& inner) {
    Statement sum = inner.sum;
    const std::vector<Iterator> kept = sort_by_rows(kept_indices(sum), sum);
    statement.value =
        write_temporary(sum, concat(statement.tensor, ".over_", inner.prefix.term.name),
                        program_.tensor(statement.tensor).type, kept);
    drop_indices(statement, [&](const Iterator& it) {
      return it.reduction && find_index(sum.domain, it.name)->reduction;
    });
    return sum;
  }

  static std::optional<Between> find_between(const Inner& inner) {
    const Prefix& prefix = inner.prefix;
    const auto& recurrence = prefix.recurrence;
    if (!recurrence || recurrence->degree != 1 || !recurrence->weight.defined() ||
        !recurrence->starts_at_one || prefix.conditional || !prefix.up_to)
      return std::nullopt;
    const std::string &t = prefix.result.name, &s = prefix.term.name;
    const int offset = static_cast<int>(prefix.offset);
    if (reads_at(recurrence->weight, s) &&
        (offset != 0 || extent_of(prefix.result) != extent_of(prefix.term)))
      return std::nullopt;
    Between between;
    std::vector<Factor> of_result;
    for (const Factor& factor : prefix.factors)
      (factor.indices.count(t) ? of_result : between.outside).push_back(factor);
    const Expr& weight = recurrence->weight;
    between.first = prefix.unscaled;
    between.states = is_const_one(prefix.unscaled) ? weight : prefix.unscaled * weight;
    between.adjoints = simplify_integers(substitute(s, make_variable(s) + offset, weight), {});
    if (!of_result.empty()) between.adjoints = product_of(of_result) * between.adjoints;
    between.increment = recurrence->increment;
    between.first_increment = recurrence->first_increment;
    return between;
  }

  std::vector<Statement> sum_between(Statement& statement, const Inner& inner,
                                     const Between& between) {
    const Prefix& prefix = inner.prefix;
    const Iterator t = prefix.result, s = prefix.term;
    const int offset = static_cast<int>(prefix.offset);
    const Expr at = make_variable(t.name), term = make_variable(s.name);
    // What only the states have is summed there, or only the adjoints.
    Indices outside = indices_of(between.increment, inner.sum);
    outside.merge(indices_of(prefix.recurrence->step, inner.sum));
    outside.merge(indices_of(between.first_increment, inner.sum));
    for (const Factor& factor : between.outside)
      outside.insert(factor.indices.begin(), factor.indices.end());
    const Indices of_states = indices_of(between.states, inner.sum),
                  of_adjoints = indices_of(between.adjoints, inner.sum);
    auto is_summed = [&](const Iterator& it, const Indices& others) {
      return it.reduction && !outside.count(it.name) && !others.count(it.name);
    };

    std::vector<Statement> made(2, inner.sum);
    Statement &states = made[0], &adjoints = made[1];
    Iterator step = s;
    step.extent = t.extent;
    states.domain.clear();
    adjoints.domain.clear();
    for (Iterator it : inner.sum.domain) {
      if (it.name == t.name || it.name == s.name) continue;
      const bool in_states = of_states.count(it.name), in_adjoints = of_adjoints.count(it.name);
      Iterator kept = it;
      kept.reduction = in_states && is_summed(it, of_adjoints);
      if (in_states) states.domain.push_back(kept);
      kept.reduction = in_adjoints && is_summed(it, of_states);
      if (in_adjoints) adjoints.domain.push_back(kept);
    }
    auto add = [](Statement& sum, Iterator it, bool reduction) {
      it.reduction = reduction;
      sum.domain.push_back(it);
    };
    add(states, t, false);
    add(states, s, true);
    add(adjoints, step, false);
    add(adjoints, t, true);
    const Expr none = make_zero(statement.value.type());
    states.value = choose_lazily(term <= at + offset, between.states, none);
    adjoints.value = choose_lazily(term <= at, between.adjoints, none);
    const Expr state = write(states, statement, "states");
    Expr adjoint = write(adjoints, statement, "adjoints");
    adjoint = substitute(s.name, at, adjoint);

    drop_indices(statement, [&](const Iterator& it) {
      return it.name == s.name ||
             (it.name != t.name && is_summed(it, of_adjoints) && of_states.count(it.name)) ||
             (it.name != t.name && is_summed(it, of_states) && of_adjoints.count(it.name));
    });
    auto scaled = [&](Expr product) {
      for (const Factor& factor : between.outside) product = multiply(product, factor);
      return product;
    };
    if (equal(between.increment, between.first_increment) &&
        !expr_uses_var(between.increment, t.name)) {
      const Expr product = scaled(adjoint * state * between.increment);
      statement.value = offset < 0 ? choose_lazily(at >= -offset, product, none) : product;
      return made;
    }
    Expr raised = adjoint * substitute(t.name, at - 1, state) * between.increment;
    if (!is_const_one(prefix.recurrence->step)) raised = raised * prefix.recurrence->step;
    // States of no terms are 0, whatever the adjoints are that have more of them.
    statement.value = choose_lazily(at > -offset, scaled(raised), none);
    if (is_zero_or_nan(between.first_increment)) return made;
    made.push_back(statement);
    auto at_first = [&](const Expr& e) { return substitute(s.name, simplify(at + offset), e); };
    const Expr exists = has_new_term(prefix, at);
    const Expr first = at_first(between.first) * adjoint * at_first(between.first_increment);
    statement.value =
        exists.defined() ? choose_lazily(simplify(exists), scaled(first), none) : scaled(first);
    statement.initializes = false;
    return made;
  }

  /// Lets the sum write a temporary, and returns what reads it.
  Expr write(Statement& sum, const Statement& statement, const std::string& what) {
    const std::vector<Iterator> kept = sort_by_rows(kept_indices(sum), statement);
    sum.tensor = statement.tensor;
    return write_temporary(sum, concat(statement.tensor, ".", what),
                           program_.tensor(statement.tensor).type, kept);
  }

  /// In an order in which neighbours in the largest of what is read are neighbours.
  static std::vector<Iterator> sort_by_rows(std::vector<Iterator> indices,
                                            const Statement& statement) {
    std::stable_sort(indices.begin(), indices.end(), [&](const Iterator& a, const Iterator& b) {
      return elements_along(a.name, statement.value, statement.domain) <
             elements_along(b.name, statement.value, statement.domain);
    });
    return indices;
  }

  template <class Drops>
  static void drop_indices(Statement& statement, const Drops& drops) {
    auto& domain = statement.domain;
    domain.erase(std::remove_if(domain.begin(), domain.end(), drops), domain.end());
  }

  PrefixReductions reductions_;
};

}  // namespace

void sum_pairs(Program& program, Layouts& layouts, const CpuMachine& machine) {
  SumPairs pass(program, layouts, machine);
  put_in_front(program, [&](Statement& statement) { return pass.rewrite(statement); });
}

}  // namespace tc::ir
