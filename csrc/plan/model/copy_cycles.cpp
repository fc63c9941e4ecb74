#include "plan/model/copy_cycles.h"

#include <algorithm>

#include "base/memory.h"
#include "base/numbers.h"
#include "machine/limits.h"

namespace tc::plan {
namespace {

/// Makes one of loops that follow each other on both sides.
void merge(std::vector<CopyLoop>& loops) {
  for (size_t outer = 0; outer < loops.size(); ++outer)
    for (size_t inner = 0; inner < loops.size(); ++inner) {
      const auto extent = static_cast<double>(loops[inner].extent);
      if (outer == inner || loops[outer].from != loops[inner].from * extent ||
          loops[outer].to != loops[inner].to * extent)
        continue;
      loops[inner].extent *= loops[outer].extent;
      loops.erase(loops.begin() + static_cast<long>(outer));
      return merge(loops);
    }
}

}  // namespace

double cycles_of_copy(std::vector<CopyLoop> loops, double element_bytes,
                      const CpuMachine& machine) {
  double elements = 1;
  for (const CopyLoop& loop : loops) elements *= static_cast<double>(loop.extent);
  merge(loops);
  // Of narrow types, short runs move as one element, and rows of which such runs are made take
  // turns.
  int64_t word = 1;
  if (element_bytes < 4 && !loops.empty() && loops.front().to == 1 && loops.front().extent > 1 &&
      static_cast<double>(loops.front().extent) * element_bytes <= 8)
    word = loops.front().extent;
  if (word > 1 && loops.front().from != 1)
    return elements * element_bytes * 8 / machine.vector_bits * machine.copied_vector_cycles;
  const auto has = [&](double CopyLoop::*step) {
    return std::any_of(loops.begin(), loops.end(), [&](const CopyLoop& loop) {
      return loop.*step == static_cast<double>(word);
    });
  };
  if (word > 1 && has(&CopyLoop::from) && has(&CopyLoop::to)) {
    loops.erase(loops.begin());
    for (CopyLoop& loop : loops)
      loop.from /= static_cast<double>(word), loop.to /= static_cast<double>(word);
  } else {
    word = 1;
  }
  int64_t run = 0, from = 0, to = 0, near = 0, apart = 0;
  for (const CopyLoop& loop : loops) {
    if (loop.from == 1 && loop.to == 1) run = loop.extent;
    if (loop.from == 1) from = loop.extent;
    if (loop.to == 1) to = loop.extent, apart = static_cast<int64_t>(loop.from);
  }
  // Elements of a line that lie apart are loaded together.
  const double bytes = static_cast<double>(apart * word) * element_bytes;
  if (apart > 1 && (from == 0 ? bytes < kLineBytes : machine::is_interleaved(apart, from)))
    near = to;
  const auto lanes =
      static_cast<int>(machine.vector_bits / 8 / static_cast<int64_t>(element_bytes) / word);
  elements /= static_cast<double>(word);
  if (const int64_t along = std::max(run, near); along > 0)
    return elements / static_cast<double>(along) * static_cast<double>(divide_up(along, lanes)) *
           machine.copied_vector_cycles;
  // The last block along a loop is a whole one that overlaps the one before.
  if (const int64_t side = lanes_of_block(std::min(from, to), lanes); side > 1)
    return elements / static_cast<double>(from * to) *
           static_cast<double>(divide_up(from, side) * divide_up(to, side) * side) *
           machine.transposed_row_cycles;
  return elements * machine.copied_element_cycles;
}

}  // namespace tc::plan
