// Register tiles whose terms an instruction adds up several at a time (isa/instructions).
#pragma once

#include <optional>
#include <vector>

#include "base/notes.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {

/// The Plan that the estimate finds cheapest of those in which an instruction of this processor, or
/// the one that the options say, does all reductions of a cluster that suits_register_tiles: terms
/// along one loop of each, and copies in blocks of what does not lie in memory as in a register.
/// Nothing where there is none. Tells of the tile.
std::optional<ClusterPlan> plan_instruction_tiles(const ClusterContext& in,
                                                  const std::vector<Member>& members,
                                                  const Constraints& constraints, bool parallel,
                                                  Notes& notes);

}  // namespace tc::plan
