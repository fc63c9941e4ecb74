// The reduction loops of a register tile that are short enough to unroll.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Unrolls the reduction loops of few iterations in the body of a register tile whose point loops
/// have constant extents, innermost first. Where the accumulators leave no registers for elements
/// that several iterations read, as the windows of a convolution do, every iteration loads its own.
/// Runs before the tile's results move to registers and its vectors are cut.
nest::Nest unroll_short_reductions(const nest::Nest& body, int lanes, int registers);

}  // namespace tc::codegen
