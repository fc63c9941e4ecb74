#include "rewrite/scans/guarded_terms.h"

#include <cmath>
#include <utility>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"

namespace tc::ir {

namespace {

/// The condition's opposite, without `||`, of which the second part may be evaluated lazily.
Expr opposite(const Expr& condition) {
  if (const auto* either = condition.as<Or>()) return opposite(either->a) && opposite(either->b);
  if (auto lazy = find_choice(condition); lazy && is_const_one(lazy->yes))
    return opposite(lazy->condition) && opposite(lazy->no);
  return Not::make(condition);
}

/// A choice that is negated or multiplied by a number, with what that makes of its sides.
std::optional<Choice> find_guard(const Expr& e);

template <class Change>
std::optional<Choice> find_changed(const Expr& e, const Change& change) {
  std::optional<Choice> choice = find_guard(e);
  if (choice)
    for (Expr* side : {&choice->yes, &choice->no}) *side = change(*side);
  return choice;
}

/// A zero stays one, whatever its sign.
std::optional<Choice> find_real_guard(const Expr& e) {
  const auto* difference = e.as<Sub>();
  const auto* product = e.as<Mul>();
  if (difference && is_const_zero(difference->a))
    return find_changed(difference->b, [&](const Expr& side) {
      return is_const_zero(side) ? side : difference->a - side;
    });
  if (!product) return find_choice(e);
  const bool is_first = as_const_float(product->a).has_value();
  const Expr &number = is_first ? product->a : product->b,
             &other = is_first ? product->b : product->a;
  const std::optional<double> factor = as_const_float(number);
  if (!factor || !std::isfinite(*factor)) return std::nullopt;
  return find_changed(other,
                      [&](const Expr& side) { return is_const_zero(side) ? side : side * number; });
}

/// Of integers also where the simplifier has taken a number out of both sides: c ? k + 1 : 0 is
/// (c ? k : -1) + 1, and c ? 2 * k : 0 is (c ? k : 0) * 2.
std::optional<Choice> find_guard(const Expr& e) {
  if (e.type().is_float()) return find_real_guard(e);
  const auto* sum = e.as<Add>();
  const auto* product = e.as<Mul>();
  if (!e.type().is_int_or_uint() || (!sum && !product) || !is_const(sum ? sum->b : product->b))
    return find_choice(e);
  return find_changed(sum ? sum->a : product->a, [&](const Expr& side) {
    return simplify_integers(sum ? side + sum->b : side * product->b, {});
  });
}

}  // namespace

std::vector<GuardedTerm> list_guarded(const Statement& statement) {
  std::vector<GuardedTerm> terms;
  GuardedTerm term{{}, statement.value, {}};
  bool leaves_nothing = true;
  while (auto choice = leaves_nothing ? find_guard(term.value) : std::nullopt) {
    // The simplifier joins a choice inside of another one with it: !(k <= d) || c ? 0 : 1.
    const bool turned = is_identity(choice->yes, statement.reduction);
    if (turned) std::swap(choice->yes, choice->no);
    leaves_nothing = is_identity(choice->no, statement.reduction);
    if (!leaves_nothing && !terms.empty()) break;
    for (const Expr& e : list_conditions(turned ? opposite(choice->condition) : choice->condition))
      term.conditions.push_back(e);
    term.value = choice->yes;
    term.elsewhere = choice->no;
    terms.push_back(term);
  }
  return terms;
}

bool is_identity(const Expr& term, Reduction reduction) {
  return !has_data(term) && equal(simplify(term), simplify(identity(reduction, term.type())));
}

std::optional<Expr> not_negative(const Expr& condition, bool holds) {
  if (const auto* op = condition.as<Not>()) return not_negative(op->a, !holds);
  auto difference = [&](const Expr& more, const Expr& less, bool strict) -> std::optional<Expr> {
    if (more.type() != Halide::Int(32)) return std::nullopt;
    // more > less, or not: less >= more.
    Expr e = holds ? more - less : less - more;
    return strict == holds ? e - 1 : e;
  };
  if (const auto* op = condition.as<LE>()) return difference(op->b, op->a, false);
  if (const auto* op = condition.as<GE>()) return difference(op->a, op->b, false);
  if (const auto* op = condition.as<LT>()) return difference(op->b, op->a, true);
  if (const auto* op = condition.as<GT>()) return difference(op->a, op->b, true);
  return std::nullopt;
}

std::optional<Expr> not_zero(const Expr& condition) {
  const auto* opposite = condition.as<Not>();
  const auto* equals = opposite ? opposite->a.as<EQ>() : nullptr;
  const auto* differs = condition.as<NE>();
  if (!equals && !differs) return std::nullopt;
  const Expr a = equals ? equals->a : differs->a, b = equals ? equals->b : differs->b;
  if (a.type() == Halide::Int(32)) return a - b;
  const auto* cast = a.as<Cast>();
  if (!cast || cast->value.type() != Halide::Int(32) || !is_const_zero(b)) return std::nullopt;
  return cast->value;
}

}  // namespace tc::ir
