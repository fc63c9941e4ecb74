// Cuts vector loops of any extent into vectors of the machine's width.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Every vector loop becomes full vectors followed by one guarded tail where the extent is not
/// known to be a multiple; extents below the width take the next power of two. The width follows
/// from the widest element that lanes access. A few vectors at a place that data says are unrolled,
/// and their tail is made of shorter ones.
/// Vector loops have constant extents afterwards; Halide's vectorize_loops comes after.
nest::Nest cut_vector_loops(const nest::Nest& nest, int vector_bits);

}  // namespace tc::codegen
