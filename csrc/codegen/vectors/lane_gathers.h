// Gathers whose places lie in a table.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// A vector of loads at places that a table has side by side, X[T[i]] for neighbouring i, becomes
/// one of single loads, whose places are loaded one by one too: taking them out of a vector takes
/// longer (0.25 ns a lane in place of 0.42 on a Zen 4, where a gather takes 0.37). Behind
/// load_neighbours, in front of the naming of common values: several gathers share the places.
ir::Stmt gather_lane_by_lane(const ir::Stmt& stmt);

}  // namespace tc::codegen
