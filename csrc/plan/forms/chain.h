// Chains: clusters that pass large tensors on, slice by slice.
#pragma once

#include <vector>

#include "plan/proposal.h"

namespace tc::plan {

/// Puts neighbouring clusters inside common outer loops where a tensor that one writes and the next
/// reads does not stay in the cache as a whole, and what an iteration touches does: the next finds
/// its slice there. The loops run through members of all the clusters with distance zero along
/// every dependence, have an iteration for every thread, and cost no cluster its register block.
/// Below them every cluster is mapped by itself. Runs after fuse, for the default options on the
/// CPU.
std::vector<Cluster> chain(const std::vector<Cluster>& clusters, const PlanContext& in);

}  // namespace tc::plan
