// From a mapped schedule to Halide statements: the narrow waist.
#pragma once

#include <map>
#include <string>

#include "ir/layout.h"
#include "ir/program.h"
#include "poly/promote.h"

namespace tc::codegen {

/// Generates the loops of a schedule. Tensors become flat buffers of their own name, indexed by
/// strides in 32 bits where every offset fits and 64 bits otherwise; run-time scalars are loads at
/// index 0 of a buffer of their name. Marked loops get their type: parallel -> Parallel, vector ->
/// Vectorized (any extent; codegen/vector_loops cuts it), block -> GPUBlock, thread -> GPUThread.
/// Promoted tensors are read from their copies, which are allocated around the loops that use them;
/// temporaries are not allocated here. Loop names are unique.
ir::Stmt to_stmt(const poly::Scop& scop, const poly::Mapped& mapped,
                 const std::map<std::string, Layout>& layouts);

}  // namespace tc::codegen
