// Gradients of the largest, or smallest, of all values up to each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"

namespace tc::lang {

/// What the terms of a running extreme receive.
struct RunningExtreme {
  std::vector<GradientStatement> statements;  ///< to be made first
  Step terms;                                 ///< the terms alone, at their own places
  ExpressionPtr weight;                       ///< what each receives
  std::string source;                         ///< the gradient that the weight is made of
};

/// Of O(n, d) max=! k <= d ? X(n, k) : X(n, 0), or min=!, or k >= d, which receives `gradient`: as
/// for any extreme, the values that are the extreme share what a result receives evenly, but so
/// that scans find all of it (rewrite/scans/find_scans), a step for every element instead of
/// their square. A value is the extreme of a run of results that begins with its own, if it is that
/// of its own, and ends where the extreme changes. What stands where the condition does not hold
/// has to be the first term, which counts once, or a literal: an infinity that is never larger, or
/// smaller, than a term, or another, which takes its share where it is the extreme. The step's
/// value are reads (term_reads.h), `extreme` is a read of its result. Nothing where the pattern is
/// another. FreshNames are taken only where it is this one.
std::optional<RunningExtreme> running_extreme(const Step& step, const ExpressionPtr& extreme,
                                              const std::string& gradient,
                                              const ir::Program& signature, FreshNames* names);

}  // namespace tc::lang
