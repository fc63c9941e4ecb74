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

/// The tree of a cluster of reductions with register tiles: parallel tiles, register tiles of the
/// same rows of results one after the other, then the points, innermost under every statement (see
/// codegen/register_tiles). `members` have the vector last.
isl::schedule map_register_tiles(const Cluster& cluster, std::vector<Member> members,
                                 const ir::Program& program,
                                 const std::map<std::string, Layout>& layouts, bool parallel,
                                 const CpuMachine& machine);

}  // namespace tc::poly
