// Which Plan a cluster runs by on the CPU.
#pragma once

#include "ir/layout.h"
#include "machine/cpu.h"
#include "plan/options/options.h"
#include "plan/proposal.h"

namespace tc::plan {

/// The Plan that the models find cheapest. It tiles the shared loops, orders them so that the one
/// that becomes a vector is innermost (unit strides decide, then reuse), and makes tasks of the
/// tiles, whose sizes follow from the work of an iteration. What the options decide holds: the
/// Plan is the cheapest of those.
///
/// A cluster whose statements have better vectors among their own loops, reductions for instance,
/// is planned as rows instead (see rows); that works without shared loops as well.
///
/// A scatter has Plans of its own (see scatters).
///
/// A cluster of reductions whose statements all have the shared loops' dimensions and no more
/// results gets register tiles instead (see register_tiles).
Proposal propose_cpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, const CpuMachine& machine);

}  // namespace tc::plan
