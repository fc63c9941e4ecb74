// Prefetches for operands whose rows lie far apart.
#pragma once

#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// Where every step of an innermost serial loop reads vectors of another row, so far from the last
/// one that no processor expects it there, the step prefetches the row that is read some steps
/// later. If the loop reads the same rows for several blocks of results, and the next iteration of
/// a loop around these reads another part of one of the `large` buffers, the steps of all blocks
/// together prefetch that part as well, some lines at a time: it comes from the last cache, or from
/// memory, while this part is worked on. Copies are left alone. Runs on expanded register tiles,
/// before vectors are made.
nest::Nest prefetch_panels(const nest::Nest& nest, const std::set<std::string>& large,
                           const CpuMachine& machine);

}  // namespace tc::codegen
