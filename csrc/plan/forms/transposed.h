// Elementwise clusters that read some tensor across the direction in which they write.
#pragma once

#include <optional>
#include <vector>

#include "base/notes.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {

/// The Plan for a cluster without inner loops in which a read is contiguous along another member
/// than the vector, `members`' last: square tiles of these two, in front of which such reads are
/// copied the other way round (see promote). Nothing when there is no such read. Tells of the
/// tiles.
std::optional<ClusterPlan> plan_transposed(const ClusterContext& in, std::vector<Member> members,
                                           const Constraints& constraints, bool parallel,
                                           Notes& notes);

}  // namespace tc::plan
