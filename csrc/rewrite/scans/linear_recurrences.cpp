#include "rewrite/scans/linear_recurrences.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/expressions/simplify.h"

namespace tc::ir {

namespace {

/// A number e(r, t) as the one of the neighbour plus a step, e(r, t) = e(r', t) + step(r).
struct Sum {
  Expr step;   ///< undefined: 0
  Expr first;  ///< of the term that a result has first; undefined: 0
  Expr rest;   ///< of the result alone, which is in neither; undefined: 0
};

/// A product as its factors, without signs.
void list_product(const Expr& e, bool& minus, std::vector<Expr>& factors) {
  const auto* difference = e.as<Sub>();
  const std::optional<double> number = as_const_float(e);
  if (const auto* product = e.as<Mul>()) {
    list_product(product->a, minus, factors);
    list_product(product->b, minus, factors);
  } else if (difference && is_const_zero(difference->a)) {
    minus = !minus;
    list_product(difference->b, minus, factors);
  } else if (number && *number < 0) {
    minus = !minus;
    list_product(Halide::Internal::make_const(e.type(), -*number), minus, factors);
  } else if (!is_const_one(e)) {
    factors.push_back(e);
  }
}

/// Whether two terms are the same, or cancel, whatever the order of their factors.
bool are_equal(const Addend& a, const Addend& b, bool opposite) {
  bool minus_a = a.minus, minus_b = b.minus;
  std::vector<Expr> of_a, of_b;
  list_product(a.value, minus_a, of_a);
  list_product(b.value, minus_b, of_b);
  return (minus_a != minus_b) == opposite &&
         std::is_permutation(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                             [](const Expr& x, const Expr& y) { return equal(x, y); });
}

Expr negate(const Expr& e) {
  const auto* difference = e.as<Sub>();
  return difference ? difference->b - difference->a : make_zero(e.type()) - e;
}

void add(Expr& sum, const Expr& e, bool minus) {
  if (!e.defined()) return;
  if (sum.defined())
    sum = minus ? sum - e : sum + e;
  else
    sum = minus ? negate(e) : e;
}

/// Whether a float is an integer for all values of indices.
bool is_integral(const Expr& e) {
  if (e.type().is_int_or_uint()) return true;
  if (const auto* cast = e.as<Cast>()) return is_integral(cast->value);
  if (const auto* op = e.as<Add>()) return is_integral(op->a) && is_integral(op->b);
  if (const auto* op = e.as<Sub>()) return is_integral(op->a) && is_integral(op->b);
  if (const auto* op = e.as<Mul>()) return is_integral(op->a) && is_integral(op->b);
  const std::optional<double> number = as_const_float(e);
  return number && std::isfinite(*number) && std::floor(*number) == *number;
}

class FindSteps {
 public:
  explicit FindSteps(const Neighbours& at) : at_(at) {}

  bool uses_result(const Expr& e) const { return expr_uses_var(e, at_.result); }
  bool uses_term(const Expr& e) const { return expr_uses_var(e, at_.term); }

  std::optional<Sum> find(const Expr& e) const {
    if (!uses_result(e)) return Sum{{}, e};
    if (!uses_term(e)) return std::nullopt;
    if (e.type().is_int_or_uint()) return find_integer(e);
    if (const auto* cast = e.as<Cast>()) {
      if (!cast->value.type().is_int_or_uint() && cast->type.bits() < cast->value.type().bits())
        return std::nullopt;
      return scaled(find(cast->value),
                    [&](const Expr& part) { return Halide::cast(cast->type, part); });
    }
    if (const auto* product = e.as<Mul>()) {
      if (is_fixed(product->a))
        return scaled(find(product->b), [&](const Expr& part) { return product->a * part; });
      if (is_fixed(product->b))
        return scaled(find(product->a), [&](const Expr& part) { return part * product->b; });
    }
    if (const auto* quotient = e.as<Div>(); quotient && is_fixed(quotient->b))
      return scaled(find(quotient->a), [&](const Expr& part) { return part / quotient->b; });
    if (e.as<Add>() || e.as<Sub>()) return find_in_terms(e);
    return std::nullopt;
  }

  /// The same as a float that is added to others, with numbers folded.
  static Expr folded(const Expr& e) { return simplify_integers(e, {}); }

 private:
  bool is_fixed(const Expr& e) const { return !uses_result(e) && !uses_term(e); }

  /// At the neighbour of the result.
  Expr before(const Expr& e) const {
    const Expr result = make_variable(at_.result);
    return substitute(at_.result, at_.up_to ? result - 1 : result + 1, e);
  }

  /// Where the term is the first one that the result has.
  Expr at_first(const Expr& e) const {
    const Expr first =
        substitute(at_.result, make_variable(at_.term) - static_cast<int>(at_.offset), e);
    return e.type().is_float() ? folded(first) : simplify_index(first);
  }

  std::optional<Sum> find_integer(const Expr& e) const {
    const Expr step = simplify_index(e - before(e));
    if (uses_term(step)) return std::nullopt;
    return Sum{step, at_first(e)};
  }

  template <class Scale>
  static std::optional<Sum> scaled(std::optional<Sum> sum, const Scale& scale) {
    if (!sum) return std::nullopt;
    if (sum->step.defined()) sum->step = scale(sum->step);
    if (sum->first.defined()) sum->first = scale(sum->first);
    if (sum->rest.defined()) sum->rest = scale(sum->rest);
    return sum;
  }

  /// Terms of the result alone have opposites of the term, c(r) - c(t), or are apart. There may be
  /// such on one side only: exp(h(r) - k(t)) may be a number where exp(h(r)) is infinite.
  std::optional<Sum> find_in_terms(const Expr& e) const {
    std::vector<Addend> terms = addends_of(e);
    Sum sum;
    for (const Addend& of_result : terms) {
      if (!uses_result(of_result.value) || uses_term(of_result.value)) continue;
      const Expr at_term = substitute(at_.result, make_variable(at_.term), of_result.value);
      auto opposite = terms.begin();
      while (opposite != terms.end() && !are_equal(*opposite, {at_term, of_result.minus}, true))
        ++opposite;
      if (opposite == terms.end()) {
        add(sum.rest, of_result.value, of_result.minus);
        continue;
      }
      add(sum.step, of_result.value - before(of_result.value), of_result.minus);
      add(sum.first, at_first(of_result.value) - at_term, of_result.minus);
      opposite->value = make_zero(at_term.type());
    }
    for (const Addend& term : terms) {
      if (uses_result(term.value) && !uses_term(term.value)) continue;
      const std::optional<Sum> part = find(term.value);
      if (!part || (sum.rest.defined() &&
                    (part->rest.defined() || (!uses_result(term.value) && uses_term(term.value)))))
        return std::nullopt;
      add(sum.rest, part->rest, term.minus);
      add(sum.step, part->step, term.minus);
      if (!part->first.defined() || !is_const_zero(part->first))
        add(sum.first, part->first, term.minus);
    }
    return sum;
  }

  const Neighbours& at_;
};

void multiply_by(Expr& product, const Expr& e, bool divides) {
  if (is_const_one(e)) return;
  product = divides ? product / e : is_const_one(product) ? e : product * e;
}

/// A function of which sums of exponents are products: exp, exp2, powers of a positive number, and
/// powers of anything by integers.
struct Power {
  std::string name;
  Expr base;  ///< undefined: of the function
  Expr exponent;

  /// Whether other numbers than integers are exponents.
  bool is_exponential() const { return !base.defined() || as_const_float(base); }

  Expr of(const Expr& e) const {
    const Type type = exponent.type();
    if (!e.defined()) return make_one(type);
    const Expr number = FindSteps::folded(e);
    if (is_const_zero(number)) return make_one(type);
    if (is_exponential() && is_zero_or_nan(number)) return make_one(type) + number;
    if (!base.defined()) return math(name, type, {number});
    return is_const_one(number) ? base : math(name, type, {base, number});
  }
};

std::optional<Power> find_power(const Expr& e, const FindSteps& steps) {
  const auto* call = e.as<Call>();
  const std::string name = call ? math_name(call) : "";
  if (name == "exp" || name == "exp2") return Power{name, {}, call->args[0]};
  if (name != "pow") return std::nullopt;
  const Power power{name, call->args[0], call->args[1]};
  const std::optional<double> number = as_const_float(power.base);
  const bool is_fixed = !steps.uses_result(power.base) && !steps.uses_term(power.base);
  const bool multiplies = number ? *number > 0 : is_integral(power.exponent);
  return is_fixed && multiplies ? std::optional(power) : std::nullopt;
}

}  // namespace

bool is_zero_or_nan(const Expr& e) {
  if (is_const_zero(e)) return true;
  if (const auto* cast = e.as<Cast>()) return is_zero_or_nan(cast->value);
  if (const auto* op = e.as<Add>()) return is_zero_or_nan(op->a) && is_zero_or_nan(op->b);
  if (const auto* op = e.as<Mul>()) return is_zero_or_nan(op->a) || is_zero_or_nan(op->b);
  if (const auto* op = e.as<Div>()) return is_zero_or_nan(op->a) && !is_zero_or_nan(op->b);
  const auto* op = e.as<Sub>();
  return op && (equal(op->a, op->b) || (is_zero_or_nan(op->a) && is_zero_or_nan(op->b)));
}

std::optional<SteppedTerm> find_stepped(const Expr& term, const Neighbours& neighbours) {
  if (!term.type().is_float()) return std::nullopt;
  const std::optional<Sum> sum = FindSteps(neighbours).find(term);
  if (!sum || sum->rest.defined() || !sum->step.defined()) return std::nullopt;
  const Expr first = sum->first.defined() ? sum->first : make_zero(term.type());
  return SteppedTerm{FindSteps::folded(sum->step), FindSteps::folded(first)};
}

bool are_positive(const std::vector<Factor>& factors) {
  return std::all_of(factors.begin(), factors.end(), [](const Factor& factor) {
    const std::optional<double> number = as_const_float(factor.value);
    const auto* call = factor.value.as<Call>();
    const std::string name = call ? math_name(call) : "";
    const std::optional<double> base = name == "pow" ? as_const_float(call->args[0]) : std::nullopt;
    return (number && *number > 0 && std::isfinite(*number)) || name == "exp" || name == "exp2" ||
           (base && *base > 0);
  });
}

bool have_equal_addends(const std::vector<Addend>& a, const std::vector<Addend>& b) {
  return std::is_permutation(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Addend& x, const Addend& y) { return are_equal(x, y, false); });
}

std::optional<Recurrence> find_recurrence(const std::vector<Factor>& factors,
                                          const Neighbours& neighbours) {
  const FindSteps steps(neighbours);
  if (factors.empty()) return std::nullopt;
  const Type type = factors.front().value.type();
  Recurrence found;
  found.step = found.first = make_one(type);
  for (const Factor& factor : factors) {
    found.indices.insert(factor.indices.begin(), factor.indices.end());
    if (const std::optional<Power> power = find_power(factor.value, steps)) {
      const std::optional<Sum> sum = steps.find(power->exponent);
      if (!sum) return std::nullopt;
      found.starts_at_one = found.starts_at_one && !sum->rest.defined() &&
                            (!sum->first.defined() || is_zero_or_nan(sum->first));
      if (sum->rest.defined()) {
        Factor apart{power->of(sum->rest), {}, factor.divides};
        for (const std::string& index : factor.indices)
          if (expr_uses_var(apart.value, index)) apart.indices.insert(index);
        found.factors.push_back(std::move(apart));
      }
      if (!found.weight.defined()) found.weight = make_one(type);
      multiply_by(found.weight, factor.value, factor.divides);
      multiply_by(found.step, power->of(sum->step), factor.divides);
      multiply_by(found.first, power->of(sum->first), factor.divides);
      found.may_end = found.may_end || (power->is_exponential() && sum->step.defined() &&
                                        steps.uses_result(sum->step));
      continue;
    }
    const std::optional<Sum> sum = steps.find(factor.value);
    if (!sum || !sum->step.defined() || sum->rest.defined() || factor.divides) return std::nullopt;
    const Expr increment = FindSteps::folded(sum->step);
    const Expr first = sum->first.defined() ? FindSteps::folded(sum->first) : make_zero(type);
    if (found.degree++ == 0) {
      found.increment = increment;
      found.first_increment = first;
    } else if (!equal(found.increment, increment) || !equal(found.first_increment, first)) {
      return std::nullopt;
    }
  }
  found.is_monotone = !steps.uses_result(found.step);
  return found;
}

}  // namespace tc::ir
