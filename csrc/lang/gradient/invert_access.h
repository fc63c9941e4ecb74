// The adjoint of an access as a gather: which points of a statement read a given element.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/gradient/size_products.h"
#include "lang/lowering/ranges.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

/// An index that an element decides: index = numerator / divisor, where the division has no rest
/// and the index stays in its range, or a digit of the numerator, which then is not negative.
struct SolvedIndex {
  std::string index;
  size_t dimension = 0;  ///< of the element, from whose subscript it is solved
  ExpressionPtr numerator;
  SizeProduct divisor;    ///< a number but for digits
  bool is_digit = false;  ///< index = numerator / divisor % modulus, whatever the rests
  std::optional<SizeProduct> modulus;     ///< none for the most significant digit
  std::vector<ExpressionPtr> conditions;  ///< that say so; none where they always hold
  bool plain = false;                     ///< the subscript is the index itself
};

/// All points that read element (@0, @1, ...): `element(d)` names dimension d.
struct InvertedAccess {
  std::vector<SolvedIndex> solved;
  /// Of dimensions whose place the others decide; none if anything is scattered.
  std::vector<ExpressionPtr> conditions;
  /// One a dimension: null, or where remaining indices decide a place, of which no index could be
  /// solved, that place and every other of which none was.
  std::vector<ExpressionPtr> scattered;
  std::vector<std::string> remaining;  ///< indices that the element leaves free, in order
  /// Subscripts and what they are for the element.
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> subscripts;
  /// Guards that hold wherever an index was solved with their help.
  std::vector<ExpressionPtr> implied;

  /// An expression of the statement's indices as one of the element and the remaining indices.
  ExpressionPtr translate(const ExpressionPtr& e) const;
};

std::string element(size_t dimension);

/// Whether indices and sizes may be beyond 32 bits in it: it has products of them, or factors that
/// are not small.
bool may_wrap_around(const Expression& e);

/// Solves the subscripts for as many indices as it can: for all of them where they are the digits
/// of a place, as 2 * h + k is with k in 0:2, or W * h + w with w in 0:W; else those of `left`
/// first, since they are the long ones, then small coefficients. A quotient is solved where one of
/// the `guards`, all of which hold, says that the division has no rest: (y - k) / 2 with (y - k) %
/// 2 == 0. A narrow window that data places, X(I(m) + k) with k in 0:3, is not solved for k unless
/// other subscripts decide m: every element would look at all of m. `indices` are those of the
/// statement in order, `ranges` theirs; `shape` holds the elements that exist.
InvertedAccess invert_access(const std::vector<ExpressionPtr>& subscripts,
                             const std::vector<std::string>& indices,
                             const std::vector<std::string>& left,
                             const std::map<std::string, Range>& ranges,
                             const std::vector<ExpressionPtr>& guards,
                             const std::vector<Range>& shape, const ir::Program& signature);

}  // namespace tc::lang
