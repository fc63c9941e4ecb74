// Sums move inwards, past the factors that do not depend on their index.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// A sum of products and quotients, R(i, r) +=! X(i, j, k)*B(j, r)*C(k, r), gets a statement in
/// front, R.over_k(i, j, r) +=! X(i, j, k)*C(k, r), and reads that instead: k is summed for a
/// product of two, and j for one of fewer points. That is repeated, with the reduction that saves
/// most first, as long as it saves operations, the traffic of the temporaries counted (elimination
/// of variables; Zhang and Poole, A simple approach to Bayesian network computations, 1994). A
/// factor that scales all terms stays with them, so that sums are no larger than in the text. A
/// condition that chooses between a product and 0 stays at the outer sum, where it has no index of
/// the inner one and is not what keeps its reads inside, unless a scan costs less (find_scans).
/// Left alone are products of two tensors, sums of integers and those under guards. Runs on a
/// specialised program, after widen_accumulators; adds the layouts of its temporaries.
void nest_sums(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
