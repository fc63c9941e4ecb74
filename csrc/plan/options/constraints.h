// What options decide about one cluster, and a Plan under it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/members.h"
#include "plan/options/options.h"

namespace tc::plan {

/// What holds for a cluster whatever the models say.
struct Constraints {
  ClusterOptions cluster;  ///< what was set for it by name
  /// Points of a task along each shared loop, by position in the band; 0 where that is open.
  std::vector<int64_t> tasks;
  int last = -1;          ///< position of the shared loop whose points come last; -1: open
  bool vectorize = true;  ///< whether there may be vectors at all
  bool parallel = true;   ///< whether tasks may run in parallel

  /// Whether the last shared loop may be a vector, and whether an own loop of a statement may.
  bool allows_shared_vector() const;
  bool allows_own_vectors() const;
  /// Whether results of a reduction may stay in registers.
  bool allows_register_tiles() const;
  /// Whether the size of a task is given along a member, or along any.
  bool sizes_task(const Member& member) const;
  bool sizes_tasks() const;
  /// The given size of a task along a member, or else this one, at most the member's extent.
  int64_t task(const Member& member, int64_t chosen) const;
};

/// Of the cluster's own options, and for the sizes of its tasks MappingOptions.tile, whose sizes
/// are those of the shared loops from outside to inside. CompilationError where they are not of
/// this cluster.
Constraints constraints_of(const Cluster& cluster, const MappingOptions& options);

/// What was set for a cluster by the name of one of its statements; null: nothing.
const ClusterOptions* options_of(const Cluster& cluster, const MappingOptions& options);

/// Sets everything in a Plan that was given by name.
void constrain(ClusterPlan& plan, const Constraints& constraints);

}  // namespace tc::plan
