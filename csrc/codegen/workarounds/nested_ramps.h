// Halide's flatten_nested_ramps, for loads from no other places than their lanes say.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Halide's flatten_nested_ramps, which also makes a load whose lanes lie constants apart one of
/// neighbours and a permutation. It loads from the least place on that the bounds of the index
/// allow, which may be in front of the buffer where no lane comes to that bound (Halide 21): of the
/// lanes `i > 0 ? i - 1 : 1`, 1 and 0, it loads from -1 on. These loads begin at the least lane.
ir::Stmt flatten_ramps(const ir::Stmt& stmt);

}  // namespace tc::codegen
