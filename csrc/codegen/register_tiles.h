// Register blocks: the tile of results that a reduction keeps in registers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// One dimension of a register tile: `full` points in every tile but the last, which has `rest`
/// (0 when the tiles divide the extent).
struct TileDimension {
  int64_t full = 1, rest = 0;
};

/// Marks a statement as the body of one register tile. Its point loops are called
/// point_loop(dimension) + anything (`point_vectors`), start at 0, and are Unrolled or Vectorized.
/// Dimension 0 is the vector.
ir::Stmt make_register_tile(const std::vector<TileDimension>& dimensions, const ir::Stmt& body);
std::optional<std::vector<TileDimension>> register_tile_of(
    const Halide::Internal::ProducerConsumer* op);

/// Gives every register tile a version for each of its sizes, so that all its loops have constant
/// extents and are unrolled, and keeps every tensor that it accumulates into in a local array of
/// vectors, which LLVM turns into registers: loaded before its first use unless the tile
/// initialises it, stored once behind its last. Tensors that some statement of the tile addresses
/// differently stay in memory. Runs before cut_vector_loops; tiles whose vector loop was not
/// vectorised are left as they are. Lines of `large` buffers that a tile does not read, and fills
/// in part, are prefetched before it begins. Of `temporaries` that one tile makes and nothing else
/// touches, nothing is stored.
ir::Stmt expand_register_tiles(const ir::Stmt& stmt, int vector_bits,
                               const std::set<std::string>& large,
                               const std::set<std::string>& temporaries);

}  // namespace tc::codegen
