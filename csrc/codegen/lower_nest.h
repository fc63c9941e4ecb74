// From the loop nest to Halide statements, a function a node.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// The statement of a nest. Loops get Halide's type of their role, buffers become allocations on
/// the stack or the heap, reductions updates of what they load. Register tiles, and copies, are
/// lowered by passes over the nest before (codegen/register_tiles, codegen/copies).
ir::Stmt lower(const nest::Nest& nest);

}  // namespace tc::codegen
