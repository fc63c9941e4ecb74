// Copies into the shared memory of a CUDA block, made by all of its threads.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Copies into shared buffers below thread loops are spread over all of these threads, each of
/// which copies every so-and-so-manieth element, with barriers around them: before, since others
/// may still read what was there, and behind, since others copy what a thread reads. Neighbouring
/// copies share their barriers. Loops of such copies have constant extents, and no condition around
/// them depends on a thread. Runs before loops are mapped to the axes of a block.
nest::Nest share_copies(const nest::Nest& nest);

}  // namespace tc::codegen
