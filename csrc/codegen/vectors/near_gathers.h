// Gathers from neighbouring elements.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// A vector of loads whose places lie in few vectors' reach of each other, in a pattern that is
/// known, becomes loads of neighbours and a permutation of what they loaded: X[2 * i] of 16 lanes
/// is two loads, X[i / 3] from a multiple of 3 on one of 6 elements. Nothing is loaded from beyond
/// the outermost places. Of predicates, those that leave the first lanes on are known. After
/// vectorize_loops, on a simplified statement.
ir::Stmt load_neighbours(const ir::Stmt& stmt);

/// How many iterations a pattern has that divisions and remainders of `loop` give the places of
/// loads, by small numbers: 3 for X[i / 3], 1 where there are none, or one is too large.
int find_period(const nest::Nest& body, const std::string& loop);

}  // namespace tc::codegen
