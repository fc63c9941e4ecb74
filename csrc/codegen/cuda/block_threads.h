// The threads of a CUDA block at a place of a nest, and what they do together. The passes run
// before loops are mapped to the axes of a block.
#pragma once

#include <vector>

#include "nest/nest.h"

namespace tc::codegen {

/// Copies into shared buffers below thread loops are spread over all of these threads, each of
/// which copies every so-and-so-manieth element, with barriers around them: before, since others
/// may still read what was there, and behind, since others copy what a thread reads. Neighbouring
/// copies share their barriers. Loops of such copies have constant extents, and no condition around
/// them depends on a thread.
nest::Nest share_copies(const nest::Nest& nest);

/// Threads that share the result of a compute which reduces `over_threads` combine their values in
/// shared memory, in halves (a tree, whose order follows from the number of threads
/// alone), and one of them combines what comes out with the result. All threads see the result
/// behind it. All of them have to reach the reduction: an InternalError where a condition around it
/// differs between threads.
nest::Nest reduce_over_threads(const nest::Nest& nest);

/// The thread loops around a node, outermost first.
using ThreadLoops = std::vector<const nest::Loop*>;

/// How many threads there are; an InternalError where that varies.
int64_t count_threads(const ThreadLoops& loops);

/// The number of the thread among those of the loops, the last one's fastest.
ir::Expr thread_number(const ThreadLoops& loops);

/// Whether an expression differs between the threads.
bool uses_threads(const ir::Expr& e, const ThreadLoops& loops);

}  // namespace tc::codegen
