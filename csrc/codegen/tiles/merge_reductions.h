// Reduction loops that walk all operands as one.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// One loop over all iterations of two, in the role of the inner one, where every index in memory
/// moves on by as much from the last inner iteration to the next outer one as between inner ones,
/// extents are constant, and the iterators stand in nothing but indices. Null elsewhere.
nest::Nest merge_loops(const nest::Loop& outer, const nest::Loop& inner);

/// Makes one loop of directly nested serial loops in the body of a register tile: after copies into
/// the order of use, operands often lie like this though their tensors do not, and a long loop has
/// fewer ends than short ones.
nest::Nest merge_reductions(const nest::Nest& body);

}  // namespace tc::codegen
