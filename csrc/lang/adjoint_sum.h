// The gradient of one tensor: the sum of what all its reads receive.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lang/ranges.h"
#include "lang/tree.h"

namespace tc::lang {

/// Names that nothing in a definition has yet.
class FreshNames {
 public:
  explicit FreshNames(const Function& function);
  /// `base`, or with a number where that is taken; taken afterwards.
  std::string fresh(const std::string& base);
  /// The same for an index, whose name may stand in other statements too.
  std::string index(const std::string& base) const;
  /// What a version is called in a text: "T" of "T#2", "T_reduced" of "T.reduced#1".
  static std::string plain(const std::string& version);

 private:
  std::set<std::string> taken_;
};

/// A statement of the derivative. Reads may name versions; subscripts are indices of the forward
/// definition's coordinates.
struct GradientStatement {
  std::string target;
  /// One a dimension: an index, or the expression of a scattered dimension.
  std::vector<ExpressionPtr> places;
  ir::Reduction reduction = ir::Reduction::None;
  bool initializes = true;
  ExpressionPtr value;
  std::vector<std::pair<std::string, Range>> ranges;
};

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

/// Statements that make `target`, of elements in `shape`, the sum of the contributions. `shapes`
/// holds the elements of other gradients. Contributions to single elements become one assignment,
/// those that sum over indices a reduction each: a gather where the subscripts can be solved, else
/// a scatter.
std::vector<GradientStatement> sum_contributions(
    const std::string& target, const std::vector<Range>& shape,
    const std::vector<Contribution>& contributions,
    const std::map<std::string, std::vector<Range>>& shapes, const ir::Program& signature,
    FreshNames* names);

}  // namespace tc::lang
