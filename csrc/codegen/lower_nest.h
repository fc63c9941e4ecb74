// From the loop nest to Halide statements, a function a node.
#pragma once

#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// What a tensor's buffer is called inside a function. Loops, and the values that Halide's passes
/// and ours name, begin with a small letter ("t0", "c1_2", "offset"); so tensors that do get
/// another name.
std::string buffer_name(const std::string& tensor);

/// Calls all buffers that are not the nest's own by `buffer_name`.
nest::Nest rename_buffers(const nest::Nest& nest);

/// The statement of a nest. Loops get Halide's type of their role, buffers become allocations on
/// the stack, the heap or in shared memory, reductions updates of what they load. Register tiles
/// have to be expanded before (codegen/tiles/register_tiles).
ir::Stmt lower(const nest::Nest& nest);

/// Stores what the instruction makes of whole vectors: its operands are put together of loads,
/// dense ones where neighbouring lanes and terms lie as in a register, or one for all lanes where
/// these read the same. Fewer terms than it adds up are filled with zeros. Where a condition leaves
/// lanes out, the loops run. The vector must have as many iterations as lanes.
ir::Stmt lower_intrinsic(const nest::Intrinsic& intrinsic);

}  // namespace tc::codegen
