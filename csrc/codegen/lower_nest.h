// From the loop nest to Halide statements, a function a node.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// The statement of a nest. Loops get Halide's type of their role, buffers become allocations on
/// the stack, the heap or in shared memory, reductions updates of what they load. Register tiles
/// have to be expanded before (codegen/tiles/register_tiles).
ir::Stmt lower(const nest::Nest& nest);

}  // namespace tc::codegen
