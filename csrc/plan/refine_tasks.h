// Sizes and order of tasks by the estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/members.h"
#include "plan/options/constraints.h"
#include "plan/plan.h"

namespace tc::plan {

/// Points of a tile worth trying along a loop, ascending: powers of two, ceiling divisors of its
/// extent, and a register tile's points times powers of two.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t registers = 1);

/// Descends from a Plan for the CPU, by one step of a size or by an exchange of two loops at a
/// time, to tasks that the estimate finds cheapest on all cores. The forms choose tasks by rules,
/// which do not know what neighbours in an operand share: batches whose elements lie beside each
/// other, or rows that all tasks read again. Nothing where that spares less than the estimate's own
/// error, or where more than one reduction is computed: how elements and results of statements stay
/// in caches for each other is what rules know better.
std::optional<ClusterPlan> refine_tasks(const ClusterPlan& plan, const ClusterContext& in,
                                        const Constraints& constraints);

}  // namespace tc::plan
