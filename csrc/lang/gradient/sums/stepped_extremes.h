// Gradients of running extremes whose terms move with their distance.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {

/// An expression of the step's indices, and what it receives at each point.
struct Receiver {
  Step step;  ///< an assignment whose value this is
  ExpressionPtr weight;
  std::string source;                     ///< the gradient that the weight is made of
  std::vector<ExpressionPtr> conditions;  ///< under which it is one
};

struct SteppedExtreme {
  std::vector<GradientStatement> statements;  ///< to be made first
  std::vector<Receiver> receivers;
};

/// Of O(t) max=! s <= t ? k(s) - (t - s) * a : -1.0 / 0.0, or min=!, or s >= t, or a constant
/// distance from it, which receives `gradient`. Terms are those of the neighbour plus a step of the
/// result, O(t) = max(O(t - 1) - a, k(t)), as scans compute them (rewrite/scans/find_scans). The
/// derivative is that of this recurrence, in scans as well: the step hands on what later results
/// receive where it is the larger side, and the term receives what it is the larger side of. Both
/// are where they are equal, and every term that is an extreme has the same share, as for any
/// extreme: results count how many there are, O(t) those of O(t - 1) where the step hands on, and
/// one for k(t). The sides are compared anew, and not terms with the extreme: a scan and its terms
/// are rounded at other places, and an extreme that is equal to no term would lose its gradient,
/// while of the two sides one is the larger, or both are, whatever their last bits are. Of
/// O(t) min=! k(s) + abs(t - s) * a, those up to t and those behind it are counted by themselves.
/// Nothing where the pattern is another one. FreshNames are taken only where it is this one.
std::optional<SteppedExtreme> stepped_extreme(const Step& step, const std::string& gradient,
                                              const ir::Program& signature, FreshNames* names);

}  // namespace tc::lang
