// Rows that several loops pass over, one after the other.
#pragma once

#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// Where a loop over rows holds several loops, and the first reads the row from one of `buffers`,
/// the second prefetches the next row meanwhile: it finds its own row in the cache, as in a
/// softmax, and memory would wait for it. Processors expect the rest of a page, but not the next
/// one. To be called between cut_vector_loops and Halide's vectoriser.
nest::Nest prefetch_passes(const nest::Nest& nest, const std::set<std::string>& buffers,
                           const CpuMachine& machine);

}  // namespace tc::codegen
