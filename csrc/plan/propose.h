// Which Plan a cluster runs by on the CPU.
#pragma once

#include "ir/layout.h"
#include "machine/cpu.h"
#include "plan/options/options.h"
#include "plan/proposal.h"

namespace tc::plan {

/// The forms that a cluster may have.
enum class Forms {
  All,
  Blocks,  ///< register tiles, whose copies can compute what they copy; all where there are none
};

/// Of the Plans that the forms make, the one that the estimate finds cheapest. What the options
/// decide holds in all of them. The forms:
///
/// - tiles of the shared loops, of which the one that becomes a vector is innermost (unit strides
///   decide, then reuse); tasks are as large as the work of an iteration asks for;
/// - squares, where an elementwise cluster reads across the direction of its writes (transposed);
/// - rows: statements have vectors among their own loops, reductions for instance; that works
///   without shared loops as well;
/// - register tiles, with an instruction or without, of a cluster of reductions whose statements
///   all have the shared loops' dimensions and no more results.
///
/// A scatter has Plans of its own (see scatters).
Proposal propose_cpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, const CpuMachine& machine,
                     Forms forms = Forms::All);

}  // namespace tc::plan
