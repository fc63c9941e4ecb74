// Register tiles: the blocks of results that a cluster of reductions keeps in registers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "poly/map_cpu.h"
#include "poly/members.h"

namespace tc::poly {

/// Whether every statement computes results in the shared band's dimensions alone, so that a tile
/// of the band is a tile of every result.
bool suits_register_tiles(const Cluster& cluster);

/// The tree of a cluster of reductions with register tiles: parallel tiles, copies of the operands
/// that are not contiguous along the vector (see promote), register tiles, then the points,
/// innermost under every statement (see codegen/register_tiles). Which member is the vector, which
/// one or two make the rows of the block, and what is copied is what takes the fewest cycles in a
/// model of the machine's multiply-adds, loads and copies; `members` come in order of preference,
/// the last first.
Mapped map_register_tiles(const Cluster& cluster, const std::vector<Member>& members,
                          const Scop& scop, const std::map<std::string, Layout>& layouts,
                          bool parallel, const CpuMachine& machine);

}  // namespace tc::poly
