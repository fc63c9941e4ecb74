// Scatters on the CPU: plain indices in parallel, the others one after the other. Several that add
// up in one tensor may share all loops.
#pragma once

#include "base/notes.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {

/// Whether the cluster is of scatters, whose places may be the same at several points.
bool is_scatter(const Cluster& cluster);

/// The Plan for such a cluster. The innermost loop is the one along which the write and the reads
/// move least; it is a vector where the write moves by one element, be it along a plain index or
/// along one that only moves an affine subscript, so that lanes never meet in one place. Plain
/// indices are tiled and parallel (if asked), the others serial inside a tile, in the order of the
/// text: every place gets its terms in an order that depends on neither tiles nor threads. Inside
/// of these again are the plain indices that move in what lies at one place, so that a task passes
/// over that once for each point. Tells of all that.
ClusterPlan plan_scatter(const ClusterContext& in, const Constraints& constraints, bool parallel,
                         Notes& notes);

}  // namespace tc::plan
