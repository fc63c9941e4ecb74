// Temporaries that live for one iteration of a loop only (privatisation).
#pragma once

#include <map>
#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"
#include "poly/slices.h"

namespace tc::nest {

/// Shrinks temporaries to what one iteration of a loop needs: where every access of a temporary is
/// below one loop, each iteration first writes a contiguous slice of it completely, and then
/// touches nothing else, the slice becomes a buffer of the iteration's own, on the stack when it
/// is small and allocated once for a parallel task otherwise. A row of intermediate results then
/// stays in the cache instead of passing through memory. Temporaries in `slices` need not be
/// written completely: no iteration touches more than its slice. Removes those temporaries from the
/// set. Runs on what nest/build makes.
Nest make_temporaries_private(const Nest& nest, std::set<std::string>& temporaries,
                              const std::map<std::string, poly::Slices>& slices,
                              const CpuMachine& machine);

}  // namespace tc::nest
