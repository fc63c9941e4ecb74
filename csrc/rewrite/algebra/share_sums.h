// What several sums have in common is summed once.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Of two sums of products, R(n) +=! X(n, d, h)*A(d) and Q(d) +=! X(n, d, h)*B(n), the part that
/// both sum over the same points gets a statement in front, R.over_h(n, d) +=! X(n, d, h), which
/// both read instead. Where one of them is no more than that part, the other reads its result.
/// Parts are found up to the names of indices and the order of factors, among factors that are
/// written alike, and shared where that costs less than sums that nest_sums orders each by itself.
/// Left alone are sums of integers and of narrow floats, those under guards, and parts whose points
/// do not outnumber their sums by far. Runs on a specialised program, after widen_accumulators;
/// adds the layouts of its temporaries.
void share_sums(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
