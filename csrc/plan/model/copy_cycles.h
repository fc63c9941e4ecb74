// What a copy of part of a tensor costs, besides the lines that it brings from memory.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/cpu.h"

namespace tc::plan {

/// A loop of a copy: steps in elements of what it reads and of what it writes.
struct CopyLoop {
  int64_t extent = 1;
  double from = 0, to = 0;
};

/// Cycles of the loops, innermost first, that copy elements of so many bytes, as
/// codegen/vectors/copies makes them: along both sides where these are contiguous together, or the
/// source's elements lie a few apart; in squares that are transposed where each is contiguous along
/// another loop; or else element by element.
double cycles_of_copy(std::vector<CopyLoop> loops, double element_bytes, const CpuMachine& machine);

}  // namespace tc::plan
