// Loop roles on a GPU: outer coincident loops on blocks, inner ones on threads, the rest serial.
#pragma once

#include "ir/layout.h"
#include "plan/options/options.h"
#include "plan/proposal.h"

namespace tc::plan {

/// Tiles a cluster's shared band so that tile loops become blocks and point loops threads, with the
/// member of unit stride on thread x. Up to three of each; the others stay serial. A cluster
/// without coincident members runs on one thread. Every statement of the cluster sees the same
/// mapping, and the dependences inside a cluster have distance zero, so no barrier is needed.
/// Of whole Plans that are not for these loops, tasks hold along loops that there are.
Proposal propose_gpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, bool plans_fit);

/// Whether all clusters that have whole Plans have the loops of these. Those that were made for a
/// CPU need not: long sums are split for a GPU, and statements share other loops.
bool do_plans_fit(const std::vector<Cluster>& clusters, const MappingOptions& options);

}  // namespace tc::plan
