// Copies from one buffer to another: vectors, transposed in registers where the two disagree about
// which direction is contiguous.
#pragma once

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// Reorders and merges the loops of copies and gives them vectors: along the direction that both
/// sides have contiguous, or else in square blocks that are transposed by shuffles, the last of
/// which overlaps the one before it; a few columns that follow each other, in whole vectors. Blocks
/// that continue on another page are prefetched; those that are computed pass through an array on
/// the stack. Loops that remain Vector are for cut_vector_loops. Copies of other forms stay as they
/// are.
nest::Nest vectorize_copies(const nest::Nest& nest, int vector_bits, const CpuMachine& machine);

}  // namespace tc::codegen
