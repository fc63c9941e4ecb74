// Register blocks: the tile of results that a reduction keeps in registers.
#pragma once

#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// Gives every register tile a version for each of its sizes, so that all its loops have constant
/// extents and are unrolled, and keeps every tensor that it accumulates into in a local array of
/// vectors, which LLVM turns into registers: loaded before its first use unless the tile
/// initialises it, stored once behind its last. So are other `temporaries` that it makes. Tensors
/// that some statement of the tile addresses differently stay in memory. Runs before
/// cut_vector_loops; tiles whose vector loop was not vectorised are left as they are. Lines of
/// `large` buffers that a tile does not read, and fills in part, are prefetched before it begins.
/// Of `temporaries` that one tile makes and nothing else touches, nothing is stored.
nest::Nest expand_register_tiles(const nest::Nest& nest, int vector_bits,
                                 const std::set<std::string>& large,
                                 const std::set<std::string>& temporaries);

}  // namespace tc::codegen
