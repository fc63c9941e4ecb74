// The loops that a Plan puts around one statement, as numbers: what an estimate counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/model/nest_traffic.h"

namespace tc::plan {

struct StatementLoops {
  std::vector<NestLoop> loops;  ///< outermost first, by number of the statement's iterators
  size_t tasks = 0;   ///< so many of them lie outside of what a task does, those around it included
  size_t copies = 0;  ///< so many are outside of the copies of what is read
  size_t around = 0;  ///< so many are around all nests of the cluster
  std::vector<int64_t> block;  ///< points along every iterator inside all loops, unrolled
  int vector = -1;             ///< the iterator that lanes go along, if any
  int lanes = 1;               ///< of a vector
  bool register_tile = false;  ///< results stay in registers while terms are added
  int terms = -1;  ///< the iterator along which an instruction adds up a block's points, if any

  /// Operations of the innermost body along an iterator that has so many points there.
  int64_t vectors(size_t iterator, int64_t points) const;
};

/// Of the cluster's statement with that number. The Plan is one that `apply` takes.
StatementLoops find_loops(const ClusterPlan& plan, size_t statement, const ClusterContext& in);

}  // namespace tc::plan
