// Reductions over the threads of a CUDA block.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Threads that share the result of a compute which reduces `over_threads` combine their values in
/// shared memory, in halves (a tree, whose order follows from the number of threads
/// alone), and one of them combines what comes out with the result. All threads see the result
/// behind it. All of them have to reach the reduction: an InternalError where a condition around it
/// differs between threads. Runs before loops are mapped to the axes
/// of a block.
nest::Nest reduce_over_threads(const nest::Nest& nest);

}  // namespace tc::codegen
