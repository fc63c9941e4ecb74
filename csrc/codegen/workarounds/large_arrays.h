// Arrays that are too large for Halide's stack.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Has the arrays on the stack of more than 16 KiB on the heap. Halide would take them from
/// halide_malloc all the same, but once a function and until its end: the kernel's scratch memory,
/// which is handed out and taken back in the order of the nest, neither counts them nor keeps
/// others off them.
nest::Nest move_large_arrays(const nest::Nest& nest);

}  // namespace tc::codegen
