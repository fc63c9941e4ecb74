// From a Plan to the schedule tree of a cluster.
#pragma once

#include <map>

#include "base/result.h"
#include "plan/plan.h"
#include "poly/fuse.h"
#include "poly/promote.h"

namespace tc::plan {

/// A tree and the copies that its extension nodes make.
struct Applied {
  poly::Mapped mapped;               ///< without notes
  std::map<size_t, Reason> refused;  ///< of the plan's copies, by number, those that are not made
};

/// Builds outer loops, tasks, reductions' tiles, copies, register tiles and points, from outside to
/// inside, around and inside the nests of the statements. The Plan must be one of this cluster: it
/// names each of its shared loops once, and each of its statements. The reason says what of it does
/// not fit.
Result<Applied> apply(const ClusterPlan& plan, const poly::Cluster& cluster,
                      const poly::Scop& scop);

}  // namespace tc::plan
