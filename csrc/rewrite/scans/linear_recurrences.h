// Weights of terms that grow by the same step from one result to the next: linear recurrences.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {

/// Which terms a result has: its first one is term = result + offset, and those of the neighbour.
struct Neighbours {
  std::string result, term;
  bool up_to = true;  ///< the neighbour is result - 1, or result + 1
  int64_t offset = 0;
};

/// A weight w(r, t) of the term t in the result r as its weight in the neighbour r' times a step:
/// w(r, t) = step(r) * w(r', t). Weighted sums are y(r) = step(r) * y(r') + x(t) * first(t) then.
/// Another factor may be the neighbour's plus something, g(r, t) = g(r', t) + increment(r). Sums
/// z_k with the k-th power of that follow from those with the lower ones: z_1(r) = step(r) *
/// (z_1(r') + increment(r) * y(r')) + x(t) * first(t) * first_increment(t), and so on by the
/// binomial theorem.
struct Recurrence {
  Expr weight;  ///< w(r, t) as the text has it; undefined: 1, where there is only such a factor
  Expr step;    ///< of the result's index; 1 where the weight is
  Expr first;   ///< of the term's index: the weight of the term that a result has first
  bool starts_at_one = true;  ///< the first weight is 1 unless it is NaN
  /// Whether a step may be exp(-inf), which leaves nothing of the neighbour, nor of what that may
  /// have been infinite or NaN for.
  bool may_end = false;
  int degree = 0;                   ///< the power of the factor with increments
  Expr increment, first_increment;  ///< defined where there is one
  std::vector<Factor> factors;      ///< of the result alone, which are in none of these
  std::set<std::string> indices;    ///< what all this depends on
  /// Of the terms of an extreme: they are the neighbour's plus the step. There is no weight.
  bool adds = false;
  /// Whether weights only fall or only grow with the distance. Otherwise what is too small for the
  /// type of a sum may count later.
  bool is_monotone = true;
};

/// Of a term k(t) - (r - t) * a, or k(t) + c(r) - c(t), that has a step: its value where a result
/// has it first, and the step. Extremes of such terms are recurrences in the semiring of extremes
/// and sums, m(r) = max(m(r') + step(r), first(t)), as distance transforms and Viterbi's are.
/// Floats only, since integers wrap around. Nothing where the result's index is in it in another
/// way.
struct SteppedTerm {
  Expr step, first;
};
std::optional<SteppedTerm> find_stepped(const Expr& term, const Neighbours& neighbours);

/// Whether the factors are above 0, or NaN, whatever the data is: exponentials and positive
/// numbers.
bool are_positive(const std::vector<Factor>& factors);

/// Whether two sums have the same terms, in any order.
bool have_equal_addends(const std::vector<Addend>& a, const std::vector<Addend>& b);

/// Whether a float is 0 where it is made of finite numbers, and else NaN.
bool is_zero_or_nan(const Expr& e);

/// Of exp(c(r) - c(t)), exp(a * (r - t)), exp2 and pow(a, r - t), multiplied, and of powers of r -
/// t or c(r) - c(t) with them, as derivatives have them: the weights of exponential averages, of
/// linear attention with decay, and of state-space layers (Gu and Dao, Mamba, 2023, section 3.2).
/// `factors` are those that depend on both indices. Nothing where one of them is something else.
std::optional<Recurrence> find_recurrence(const std::vector<Factor>& factors,
                                          const Neighbours& neighbours);

}  // namespace tc::ir
