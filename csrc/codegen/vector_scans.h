// Scans along the vector: loops in which every element goes on from its neighbour.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// A Vectorized loop with a store X[i] = (not the first ? X[i - 1] : e) op value, as ir/find_scans
/// makes them, along neighbours in either direction, becomes a loop over vectors: the lanes of one
/// are combined with those 1, 2, 4, ... before them (Hillis and Steele, Data parallel algorithms,
/// 1986), and with what the vectors before came to. Where a condition says which elements go on and
/// which start anew, (not the first ? (c ? X[i - 1] : e) : e) op value with an e that changes
/// nothing, lanes are combined as far as it holds for all between them; a sum's neighbour may
/// be scaled, X[i - 1] * s. Other stores of the loop follow, a vector each.
/// Loops in which an element needs its neighbour in another way become Serial. Runs before
/// vectorize_reductions.
ir::Stmt vectorize_scans(const ir::Stmt& stmt, int vector_bits);

/// Turns what those loops say of lanes into shuffles. Runs after Halide's vectorize_loops.
ir::Stmt shuffle_lanes(const ir::Stmt& stmt);

}  // namespace tc::codegen
