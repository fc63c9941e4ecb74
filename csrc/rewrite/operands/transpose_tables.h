// Tables whose rows lie across the places that data looks up: transposed first.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::rewrite {

/// A statement that reads W(q, d, c(n, d)) for many n, with neighbours along q in all else, gets a
/// statement in front, W.transposed(d, k, q) = W(q, d, k), and reads that instead: a vector along q
/// is one load, not as many as it has lanes. So does a scatter to W(q, d, c(n, d)), whose results
/// are transposed back behind it. That is done where no index walks along the contiguous dimension,
/// and where it costs less than what it spares: all of the table is passed over once, or twice.
/// Runs on a specialised program, behind gather_operands, which puts in order what is used often,
/// and before collapse_dimensions and share_scatters; adds the layouts of its temporaries.
void transpose_tables(ir::Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::rewrite
