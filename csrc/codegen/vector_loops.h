// Cuts loops marked Vectorized, of any extent, into vectors of the machine's width.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Every Vectorized loop becomes full vectors followed by one predicated tail where the extent is
/// not known to be a multiple; extents below the width take the next power of two. The width
/// follows from the widest element that lanes access. A few vectors at a place that data says are
/// unrolled. Halide's vectorize_loops comes after.
ir::Stmt cut_vector_loops(const ir::Stmt& stmt, int vector_bits);

}  // namespace tc::codegen
