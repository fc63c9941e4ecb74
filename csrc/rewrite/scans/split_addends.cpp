#include "rewrite/scans/split_addends.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/visit.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/scans/guarded_terms.h"

namespace tc::ir {

namespace {

Expr negated(const Expr& e) {
  if (is_const_zero(e)) return e;
  if (const auto choice = find_choice(e))
    return choose_lazily(choice->condition, negated(choice->yes), negated(choice->no));
  return e * Halide::Internal::make_const(e.type(), -1);
}

/// The product with each term of one of its factors in the place of the factor. Terms have at least
/// two of these indices each: a difference of one at each place, as C(t) - C(s) is, may be small
/// where the sums of both are large.
std::vector<std::vector<Expr>> expand(const Expr& value, const Statement& statement,
                                      const std::set<std::string>& indices) {
  std::vector<std::vector<Expr>> found;
  Statement product = statement;
  product.value = value;
  const std::vector<Factor> factors = factors_of(product);
  for (size_t f = 0; f < factors.size(); ++f) {
    std::vector<Expr> parts;
    if (factors[f].divides) continue;
    for (const Addend& addend : addends_of(factors[f].value))
      parts.push_back(addend.minus ? negated(addend.value) : addend.value);
    const bool has_two = std::all_of(parts.begin(), parts.end(), [&](const Expr& part) {
      return std::count_if(indices.begin(), indices.end(), [&](const std::string& index) {
               return expr_uses_var(part, index);
             }) >= 2;
    });
    if (parts.size() < 2 || !has_two) continue;
    for (Expr& part : parts) {
      std::vector<Factor> all = factors;
      all[f].value = part;
      part = product_of(all);
    }
    found.push_back(std::move(parts));
  }
  return found;
}

/// A number of 32 bits as a signed one, without casts that change nothing in it.
Expr as_signed(const Expr& e) {
  if (const auto* cast = e.as<Cast>(); cast && cast->value.type().bits() == 32)
    return as_signed(cast->value);
  if (const auto* op = e.as<Sub>()) return as_signed(op->a) - as_signed(op->b);
  return Halide::cast(Halide::Int(32), e);
}

/// A choice inside of a value whose condition compares indices, as that of abs(t - s).
std::optional<Choice> find_inner_choice(const Expr& value) {
  std::optional<Choice> found;
  auto look_at = [&](const Expr& e) {
    const std::optional<Choice> choice = found ? std::nullopt : find_choice(e);
    if (choice && !has_data(choice->condition) && not_negative(choice->condition)) found = choice;
  };
  for_each<Select>(value, look_at);
  for_each<Call>(value, look_at);
  return found;
}

/// The value where the choice is made.
Expr with_choice(const Expr& value, const Choice& choice, bool holds) {
  auto chosen = [&](const Expr& e) -> Expr {
    const std::optional<Choice> found = find_choice(e);
    if (!found || !equal(found->condition, choice.condition)) return {};
    return holds ? found->yes : found->no;
  };
  return mutate(
      value,
      [&](const Cast* cast, Mutator& self) -> Expr {
        const Expr e = self.inside(cast);
        const auto* changed = e.as<Cast>();
        return changed && e.type() == Halide::Int(32) && changed->value.type() == Halide::UInt(32)
                   ? as_signed(changed->value)
                   : e;
      },
      [&](const Select* select, Mutator& self) -> Expr {
        const Expr side = chosen(select);
        return side.defined() ? self.mutate(side) : self.inside(select);
      },
      [&](const Call* call, Mutator& self) -> Expr {
        const Expr side = chosen(call);
        return side.defined() ? self.mutate(side) : self.inside(call);
      });
}

/// Of Y +=! c ? X * (W - V) : 0 the sums Y +=! c ? X * W : 0 and Y += c ? -X * V : 0, and of a
/// value that chooses by indices, as abs(t - s) does, those over the points of each side: ways to
/// take a sum of floats apart, or by its choices an extreme, for who knows what to do with all
/// parts of one. The first part of each initializes what the statement does.
std::vector<std::vector<Statement>> split_addends(const Statement& statement) {
  std::vector<std::vector<Statement>> found;
  const bool is_sum = statement.reduction == Reduction::Sum;
  if (!statement.value.type().is_float() ||
      (!is_sum && statement.reduction != Reduction::Min && statement.reduction != Reduction::Max))
    return found;
  const Expr none = identity(statement.reduction, statement.value.type());
  auto split = [&](const std::vector<Expr>& parts) {
    std::vector<Statement> statements;
    for (const Expr& part : parts) {
      Statement made = statement;
      made.value = part;
      made.initializes = statement.initializes && statements.empty();
      statements.push_back(std::move(made));
    }
    found.push_back(std::move(statements));
  };
  for (const GuardedTerm& term : list_guarded(statement)) {
    if (!is_sum || !is_identity(term.elsewhere, statement.reduction)) continue;
    Expr condition;
    for (const Expr& e : term.conditions)
      condition = condition.defined() ? choose_lazily(condition, e, const_false()) : e;
    for (std::vector<Expr>& parts : expand(term.value, statement, variables_of(condition))) {
      for (Expr& part : parts) part = choose_lazily(condition, part, none);
      split(parts);
    }
    if (const auto choice = find_inner_choice(term.value)) {
      std::vector<Expr> sides;
      for (bool holds : {true, false})
        sides.push_back(choose_lazily(
            choose_lazily(condition, holds ? choice->condition : !choice->condition, const_false()),
            with_choice(term.value, *choice, holds), none));
      split(sides);
    }
  }
  if (const auto choice = find_inner_choice(statement.value)) {
    const Expr &condition = choice->condition, &value = statement.value;
    split({choose_lazily(condition, with_choice(value, *choice, true), none),
           choose_lazily(!condition, with_choice(value, *choice, false), none)});
  }
  return found;
}

}  // namespace

std::optional<std::vector<Statement>> split_until(
    const Statement& statement, const std::function<bool(const Statement&)>& holds, int times) {
  if (holds(statement)) return std::vector<Statement>{statement};
  if (times == 0) return std::nullopt;
  for (const std::vector<Statement>& parts : split_addends(statement)) {
    std::vector<Statement> all;
    const bool hold = std::all_of(parts.begin(), parts.end(), [&](const Statement& part) {
      const auto found = split_until(part, holds, times - 1);
      if (found) all.insert(all.end(), found->begin(), found->end());
      return found.has_value();
    });
    if (hold) return all;
  }
  return std::nullopt;
}

}  // namespace tc::ir
