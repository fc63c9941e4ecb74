// Reductions along the vector: loops that add consecutive elements into one result.
#pragma once

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// A vector loop below which X[f] is reduced with f the same in all its iterations gets vectors of
/// partial results: enough of them to hide the latency of the operator, kept in registers over all
/// loops around it in which f stays the same, then added up and combined once with X[f]. Several
/// results may be reduced in one loop, and other computes may have consecutive elements. The order
/// of additions follows from extents and the vector width alone. Guards around a compute hold;
/// floats narrower than 32 bits are accumulated in float. Where data says how many iterations there
/// are, few of them run one after the other.
///
/// Unrolled loops right below the vector are rows that share loads: they are unrolled into it.
/// Loops around a vector loop that continue where its last iteration ends become part of it. Loops
/// that accumulate in another way than this become serial. Runs before cut_vector_loops, which must
/// not see loops that accumulate.
nest::Nest vectorize_reductions(const nest::Nest& nest, int vector_bits, const CpuMachine& machine);

}  // namespace tc::codegen
