// Prefetches for reads whose addresses are data.
#pragma once

#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// In innermost loops, prefetches what later iterations read of the given buffers where the address
/// depends on data that the loop reads (rows of a lookup table): the processor cannot guess such
/// addresses, and only starts as many reads by itself as fit between two that it waits for. The
/// last iterations prefetch what comes behind the loop: the next such loop of the same statements,
/// or the first one in the next iteration of the serial loop around them. Only data that the kernel
/// reads anyway says where. Runs after cut_vector_loops.
nest::Nest prefetch_gathers(const nest::Nest& nest, const std::set<std::string>& buffers,
                            const CpuMachine& machine);

}  // namespace tc::codegen
