// Register tiles: the blocks of results that a cluster of reductions keeps in registers.
#pragma once

#include "poly/map_cpu.h"
#include "poly/register_blocks.h"

namespace tc::poly {

/// Whether every statement computes results in the shared band's dimensions alone, so that a tile
/// of the band is a tile of every result.
bool suits_register_tiles(const Cluster& cluster);

/// The tree of a cluster of reductions with this block: parallel tiles, copies of the operands that
/// are not contiguous along the vector (see promote), register tiles, then the points, innermost
/// under every statement (see codegen/register_tiles).
Mapped map_register_tiles(const Cluster& cluster, const RegisterBlock& block, const Scop& scop,
                          bool parallel, const CpuMachine& machine);

}  // namespace tc::poly
