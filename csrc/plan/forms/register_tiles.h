// Register tiles: the blocks of results that a cluster of reductions keeps in registers.
#pragma once

#include "base/notes.h"
#include "plan/forms/register_blocks.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {

/// Whether every statement computes results in the shared band's dimensions alone, so that a tile
/// of the band is a tile of every result.
bool suits_register_tiles(const Cluster& cluster);

/// The Plan for a cluster of reductions with this block: parallel tasks, copies of the operands
/// that are not contiguous along the vector, register tiles, then the points, innermost under every
/// statement. Tells of the tasks.
ClusterPlan plan_register_tiles(const ClusterContext& in, const RegisterBlock& block,
                                const Constraints& constraints, bool parallel, Notes& notes);

}  // namespace tc::plan
