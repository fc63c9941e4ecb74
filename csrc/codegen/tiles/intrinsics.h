// Instructions that a nest names, as Halide's expressions.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Stores what the instruction makes of whole vectors: its operands are put together of loads,
/// dense ones where neighbouring lanes and terms lie as in a register, or one for all lanes where
/// these read the same. Fewer terms than it adds up are filled with zeros. Where a condition leaves
/// lanes out, the loops run. The vector must have as many iterations as lanes.
ir::Stmt lower_intrinsic(const nest::Intrinsic& intrinsic);

}  // namespace tc::codegen
