// The order of a block's tiles, and how many points they take at a time: what caches keep decides.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/forms/register_blocks.h"

namespace tc::plan {

/// Fills in `tile_order`, `chunks`, `near_rows` and `footprints` of a block whose members and
/// points are chosen.
void arrange_tiles(const Operands& operands, const CpuMachine& machine, RegisterBlock& block);

/// For tiles of these sizes, by number of the member, an order that brings much less from the last
/// cache than `tile_order` does, if there is one: of those that bring nearly as little, the one
/// that is most like it.
std::vector<int> order_by_traffic(const RegisterBlock& block, const std::vector<int64_t>& sizes,
                                  const CpuMachine& machine);

}  // namespace tc::plan
