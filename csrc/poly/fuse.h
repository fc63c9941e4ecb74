// Clusters: statements that share outer loops. Runs after dependences, before tiling.
#pragma once

#include <vector>

#include "options.h"
#include "poly/dependences.h"

namespace tc::poly {

/// Statements under one outer band. Its schedule is
///   domain - [band of `shared` coincident members] - sequence of the statements' remaining bands,
/// where the band is absent for `shared` = 0 and the sequence for a single statement. All members
/// of all bands run through one iterator of each statement with coefficient 1, so nothing is skewed
/// or reversed.
struct Cluster {
  std::vector<const ScopStatement*> statements;
  isl::union_set domain;
  isl::schedule schedule;
  unsigned shared = 0;
};

/// Groups neighbouring statements. A statement's initialisation always goes with its updates.
/// Min: nothing else is fused. Preserve3Coincident: as long as the joint band keeps
/// min(3, what each had) coincident members. Max: as long as one coincident member is shared.
std::vector<Cluster> fuse(const Scop& scop, const Dependences& dependences,
                          FusionStrategy strategy);

}  // namespace tc::poly
