// Scans along the vector: loops in which every element goes on from its neighbour.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// A vector loop that a compute scans along (see ir::Scan), over neighbours in either direction,
/// becomes a loop over vectors: the lanes of one are combined with those 1, 2, 4, ... before them
/// (Hillis and Steele, Data parallel algorithms, 1986), and with what the vectors before came to.
/// Where a condition says which elements go on and which start anew, lanes are combined as far as
/// it holds for all between them; a sum's neighbour may be scaled. Other computes of the loop
/// follow, a vector each. Loops that are scanned along in another way become serial. Runs before
/// vectorize_reductions.
nest::Nest vectorize_scans(const nest::Nest& nest, int vector_bits);

/// Turns what those loops say of lanes into shuffles. Runs after Halide's vectorize_loops.
ir::Stmt shuffle_lanes(const ir::Stmt& stmt);

}  // namespace tc::codegen
