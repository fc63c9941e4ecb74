// A definition in single assignment: every statement makes a version of its tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lang/lowering/definition.h"
#include "lang/lowering/ranges.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

/// "T#2": what T holds after two statements wrote it. "T#0" is what the caller passed.
std::string version_name(const std::string& tensor, int version);

/// One statement: target(places) reduction= value, over `ranges`.
struct Step {
  std::string target;    ///< a version
  std::string previous;  ///< the version before
  Type type;
  std::vector<std::string> left;     ///< plain indices of the left-hand side
  std::vector<std::string> reduced;  ///< the others
  /// One a dimension of the left-hand side: a plain index, or the expression of a scattered one.
  std::vector<ExpressionPtr> places;
  /// One a dimension: a name for an index that runs over all elements.
  std::vector<std::string> elements;
  std::map<std::string, Range> ranges;  ///< of left and reduced indices
  ir::Reduction reduction = ir::Reduction::None;
  /// The checked right-hand side; reads name versions, lets and sizes of results are replaced.
  ExpressionPtr value;
  /// Whether every element is written, if only with what a reduction starts from. Elsewhere the
  /// previous version stays.
  bool covers = true;
  /// The coordinates of all elements.
  std::vector<Range> shape;
  /// What a reduction starts from: its identity, or the previous version.
  bool initializes = true;

  SourceRange where;

  /// All indices: left, then reduced.
  std::vector<std::string> indices() const {
    std::vector<std::string> all = left;
    all.insert(all.end(), reduced.begin(), reduced.end());
    return all;
  }
  /// Whether some dimension of the left-hand side is scattered.
  bool scatters() const { return left.size() < places.size(); }
};

struct Versions {
  std::vector<Step> steps;
  std::map<std::string, int> last;  ///< versions of each computed tensor

  /// What makes a version; null where no statement does.
  const Step* find(const std::string& version) const {
    for (const Step& step : steps)
      if (step.target == version) return &step;
    return nullptr;
  }
};

/// Statements without reduction that use the previous value (`C(i) += a(i)`) become assignments of
/// C + a; all reductions but sums start from their identity and are combined with the previous
/// value by a statement of their own. `scalars` has the values of specialised scalars; they are
/// written into the expressions.
Versions number_versions(const Definition& definition,
                         const std::map<std::string, int64_t>& scalars);

}  // namespace tc::lang
