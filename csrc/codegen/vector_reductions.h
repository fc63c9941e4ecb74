// Reductions along the vector: loops that add consecutive elements into one result.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// A Vectorized loop that accumulates, X[f] = X[f] op value with f the same in all its iterations,
/// gets vectors of partial results: enough of them to hide the latency of `op`, kept in registers
/// over all loops around it in which f stays the same, then added up and combined once with X[f].
/// Several statements may accumulate in one loop, and others may store to consecutive elements. The
/// order of additions follows from extents and the vector width alone. Conditions around a
/// statement hold; floats narrower than 32 bits are accumulated in float.
///
/// Unrolled loops right below the vector are rows that share loads: they are unrolled into it.
/// Loops around a Vectorized one that continue where its last iteration ends become part of it.
/// Loops that accumulate in another way than this become Serial. Runs before cut_vector_loops,
/// which must not see loops that accumulate.
ir::Stmt vectorize_reductions(const ir::Stmt& stmt, int vector_bits);

}  // namespace tc::codegen
