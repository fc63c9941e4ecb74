// The gradient of one tensor: the sum of what all its reads receive.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lang/lowering/ranges.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

class ZeroSums;

using IndexRanges = std::vector<std::pair<std::string, Range>>;
/// The ranges of these indices, in their order.
IndexRanges ranges_of(const std::vector<std::string>& indices,
                      const std::map<std::string, Range>& ranges);

/// A statement of the derivative. Reads may name versions; subscripts are indices of the forward
/// definition's coordinates.
struct GradientStatement {
  std::string target;
  /// One a dimension: an index, or the expression of a scattered dimension.
  std::vector<ExpressionPtr> places;
  ir::Reduction reduction = ir::Reduction::None;
  bool initializes = true;
  ExpressionPtr value;
  IndexRanges ranges;
};

/// Whether so many operations are better made in several statements: half of what one may have,
/// since more are counted once types are known (see lang/sema/expansion).
bool is_long(double operations);

/// At every point of `indices`, the element of `to` at `subscripts` receives `weight` where all
/// guards hold.
struct Contribution {
  std::string to;
  std::vector<std::string> indices;
  std::vector<std::string> left;  ///< those of the indices that are no reduction's
  std::map<std::string, Range> ranges;
  std::vector<ExpressionPtr> subscripts, guards;
  ExpressionPtr weight;
  std::string source;                        ///< the gradient that the weight is made of
  std::vector<ExpressionPtr> source_places;  ///< where it is read
  /// Every element receives the same element of `source`.
  bool copies = false;
};

/// Statements that make `target`, of elements of `type` in `shape`, the sum of the contributions.
/// `shapes` holds the elements of all that is read, `zeros` knows the statements so far.
/// Contributions to single elements become one
/// assignment, or several that add where that is long, those that sum over indices a reduction
/// each: a gather where the subscripts can be solved, else a scatter. What all terms of a sum share
/// multiplies the sum, once, and also once for several sums that share the same. None where all
/// sums are zero whatever the data.
std::vector<GradientStatement> sum_contributions(
    const std::string& target, Type type, const std::vector<Range>& shape,
    const std::vector<Contribution>& contributions,
    const std::map<std::string, std::vector<Range>>& shapes, const ir::Program& signature,
    ZeroSums* zeros, FreshNames* names);

}  // namespace tc::lang
