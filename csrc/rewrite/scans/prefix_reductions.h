// Reductions over all terms up to an index, or from it on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/scans/guarded_terms.h"
#include "rewrite/scans/linear_recurrences.h"
#include "rewrite/scans/rescaled_sums.h"

namespace tc::ir {

/// A reduction whose terms are those with term <= result + offset, or those with term >= result +
/// offset.
struct Prefix {
  Reduction reduction = Reduction::Sum;
  Iterator result, term;
  bool up_to = true;
  int64_t offset = 0;
  Expr value;                ///< of every term
  bool conditional = false;  ///< there are other conditions than the comparison
  Expr elsewhere;            ///< undefined where it is the identity
  /// Which results have terms at all; undefined: all that the comparison leaves some.
  Expr outside;
  /// A read at the term. Only terms count for which it is what it is for the result; undefined:
  /// all.
  Expr segment;
  std::optional<RescaledTerm> rescaled;  ///< of which `value` is then the value
  std::vector<Factor> factors;           ///< of each result, which terms are without
  Expr unscaled;  ///< terms without these, weights and conditions; undefined: there are none
  Expr whole;     ///< every term as the text has it, but for conditions
  /// Of the terms' weights, or of what an extreme's terms are with their distance; `value` is
  /// without.
  std::optional<Recurrence> recurrence;
  /// Indices of the reduction that the factors or weights have: each point of them has a scan of
  /// its own, and the results are summed over them.
  std::vector<Iterator> carried;
};

/// The carried indices that terms or weights have, which are no reduction's then.
std::vector<Iterator> carried_indices(const Prefix& prefix);
/// Whether the result has terms, and whether it has one that its neighbour has not; undefined where
/// all results do.
Expr has_terms(const Prefix& prefix, const Expr& result);
Expr has_new_term(const Prefix& prefix, const Expr& result);
/// The operations of the scans that it becomes.
double operations_of(const Statement& statement, const Prefix& prefix);

/// Finds them, statement by statement: what one says of a tensor holds for those behind it.
class PrefixReductions {
 public:
  explicit PrefixReductions(const Program& program) : program_(program) {}

  /// Nothing where no scan makes the statement's results, or where it would cost more.
  std::optional<Prefix> find(const Statement& statement) const;
  /// The same of the next statement of the program, of which it notes what it says of its tensor.
  std::optional<Prefix> go_on(const Statement& statement);

 private:
  /// What is maximal up to an index, or from it on.
  struct Rising {
    size_t dimension = 0;
    bool up_to = true;
    int64_t offset = 0;                 ///< to the index of the last term
    Expr value;                         ///< of which it is the maximum
    std::string term;                   ///< the index that this runs along
    std::vector<std::string> elements;  ///< the indices of the elements written
    Expr step;                          ///< of the value, from one result to the next; undefined: 0
  };

  /// A tensor whose elements are no less than those of a level.
  struct Bound {
    std::vector<std::string> elements;  ///< its indices
    Expr level;                         ///< a read, of these
  };

  /// A tensor is about to be written: levels of what it holds are levels of something else then.
  void forget(const std::string& tensor);
  /// Notes where the statement's results only grow or only fall.
  void note(const Statement& statement, const Prefix& prefix);
  /// Notes where they are no less than a level.
  void note_bound(const Statement& statement);
  bool complete(const Statement& statement, const GuardedTerm& term,
                const std::vector<Expr>& others, Prefix& prefix) const;
  /// Whether the terms are exponentials below a level; other factors of the result, and those that
  /// grow by increments, are taken out of them.
  bool rescale(const Statement& statement, const GuardedTerm& term, Prefix& prefix) const;
  /// Whether the result's index is only in factors of all terms and in weights of a recurrence,
  /// without which the terms are then. `inside` are conditions of terms, if there are any.
  bool take_out_factors(const Statement& statement, const GuardedTerm& term, const Expr& inside,
                        Prefix& prefix) const;
  /// Whether the terms of an extreme are those of the neighbour plus a step, or times a positive
  /// one.
  bool take_out_steps(const Statement& statement, const GuardedTerm& term, const Expr& inside,
                      Prefix& prefix) const;
  /// Makes indices that factors and weights have carried ones; false where that is not worthwhile.
  bool carry_indices(const Statement& statement, const GuardedTerm& term, Prefix& prefix) const;
  /// Whether scans at all points of other indices of the reduction cost less than the sums of the
  /// text, and do not take too much memory.
  bool is_worthwhile(const Statement& statement, const GuardedTerm& term,
                     const Prefix& prefix) const;
  /// The largest of these exponents up to the result's index, or from there on, where `e` is that
  /// or no less; where it falls, the one of the term's index. Other levels may be far below the
  /// exponents: the exponential of a difference is infinite, and another one's 0.
  std::optional<Level> find_level(const Statement& statement, const Prefix& prefix, const Expr& e,
                                  const std::vector<Addend>& exponents, bool falls) const;
  /// A read of a running maximum that this is no less than; undefined where none is known.
  Expr find_rising(const Expr& e) const;
  /// M(n, k) of M(n, k) == M(n, d), if M only grows, or only falls, along this dimension: then
  /// places of one value follow each other. Every result has its own term. Undefined for anything
  /// else.
  Expr find_segment(const Statement& statement, const Expr& condition, const Prefix& prefix) const;

  const Program& program_;
  /// Tensors that only grow, or only fall, along a dimension, have no NaN and nowhere else are
  /// written.
  std::map<std::string, size_t> monotone_;
  std::map<std::string, Rising> rising_;  ///< of floats
  std::map<std::string, Bound> bounds_;
};

}  // namespace tc::ir
