// The threads of a CUDA block at a place of a nest.
#pragma once

#include <vector>

#include "nest/nest.h"

namespace tc::codegen {

/// The thread loops around a node, outermost first.
using ThreadLoops = std::vector<const nest::Loop*>;

/// How many threads there are; an InternalError where that varies.
int64_t count_threads(const ThreadLoops& loops);

/// The number of the thread among those of the loops, the last one's fastest.
ir::Expr thread_number(const ThreadLoops& loops);

/// Whether an expression differs between the threads.
bool uses_threads(const ir::Expr& e, const ThreadLoops& loops);

}  // namespace tc::codegen
