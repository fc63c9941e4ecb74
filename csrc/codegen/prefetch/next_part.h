// Prefetches, by the loops that work on one part of a tensor, of the part that is next.
#pragma once

#include "codegen/prefetch/walks.h"
#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// What an iteration of the innermost of the loops has to prefetch so that all iterations together,
/// in the order in which they run, prefetch the part that belongs to the next iteration of the loop
/// that moves `part`, some lines at a time, each into the second cache. Null where the next part
/// overlaps this one, where there are fewer than `least_steps` iterations for a run, or where the
/// loops do not say how many there are. What is beyond the last part is prefetched as well, which
/// no program notices.
nest::Nest prefetch_next_part(const Footprint& part, const Around& around, int64_t least_steps,
                              const CpuMachine& machine);

}  // namespace tc::codegen
