// Blocks of elements: a statement without reductions at several iterations at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/members.h"

namespace tc::plan {

/// `elements`, the Plan of a cluster of one statement whose last member is the vector, with a block
/// of rows and vectors that are unrolled: what is read that stays the same along the rows is loaded
/// once for all of them. The cheapest by the estimate; none where that is not clearly cheaper than
/// without a block. Tasks are whole blocks.
std::optional<ClusterPlan> plan_element_blocks(const ClusterContext& in,
                                               const std::vector<Member>& members,
                                               const ClusterPlan& elements);

/// The same of rows of results that are too short for a vector: `elements` has the vector along
/// another loop, last, and in front of it the row, which every block has whole. None where that is
/// not cheaper than without blocks.
std::optional<ClusterPlan> plan_interleaved_rows(const ClusterContext& in,
                                                 const std::vector<Member>& members,
                                                 const ClusterPlan& elements);

}  // namespace tc::plan
