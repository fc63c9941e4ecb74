// Prefetches, by the loops that work on one part of a tensor, of the part that is next.
#pragma once

#include <string>
#include <vector>

#include "codegen/around_loops.h"
#include "ir/halide.h"

namespace tc::codegen {

/// Elements of a buffer: runs side by side, which loops walk over.
struct Part {
  ir::Type type;
  std::string buffer;
  ir::Expr start;  ///< of the first run
  int64_t width = 1;
  struct Walk {
    int64_t extent, step;
  };
  std::vector<Walk> walks;  ///< innermost first
};

/// What an iteration of the innermost of the loops has to prefetch so that all iterations together,
/// in the order in which they run, prefetch the part that belongs to the next iteration of the loop
/// that moves `part`, some lines at a time, each into the second cache. Undefined where the next
/// part overlaps this one, where there are fewer than `least_steps` iterations for a run, or where
/// the loops do not say how many there are. What is beyond the last part is prefetched as well,
/// which no program notices.
ir::Stmt prefetch_next_part(const Part& part, const AroundLoops& around, int64_t least_steps);

}  // namespace tc::codegen
