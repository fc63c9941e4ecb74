// The last columns of a product, too few for a vector, become sums along the reduction.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Splits a sum whose results lie along vectors, but for a few at the end of each row that would
/// take a vector of their own, most of it idle: as in 81 columns by vectors of 16. Where the other
/// operand lies along a reduction, a second statement adds up these results in vectors along that;
/// what moves along the columns is copied into a temporary that lies along the reduction as well.
/// Left alone are results that another statement uses, which could share a pass with the sum. Runs
/// on a specialised program, before scop; adds the layouts of its temporaries.
void split_columns(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
