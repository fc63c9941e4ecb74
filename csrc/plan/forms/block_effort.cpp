#include "plan/forms/block_effort.h"

#include <algorithm>

#include "base/memory.h"
#include "machine/limits.h"

namespace tc::plan {
namespace {

// Shorter runs that several steps share, each somewhere else than the one before, come at half that
// rate: neither the processor nor a prefetch of ours asks for them (measured with vectors of 8: 64
// filters of 64 x 56 x 56, 3 x 3, 1.15 times faster along the filters than along rows of two
// images).
constexpr double kShortBytes = 256, kUnasked = 2;
// Of the first cache, what it keeps of a block for the next one.
constexpr double kKept = 0.75;

}  // namespace

double Load::count(const BlockShape& block) const {
  double result = cost;
  for (size_t d = 0; d < block.size(); ++d)
    if (moves[d]) result *= static_cast<double>(block[d]);
  return result;
}

double Load::share_of_windows(const BlockShape& block) const {
  if (along_terms.empty()) return 1;
  std::vector<Walk> walks = along_terms;
  for (size_t d = 0; d < along_block.size(); ++d)
    if (along_block[d].step != 0) walks.push_back({along_block[d].step, block[d]});
  return different_share(walks);
}

double Load::lines(const BlockShape& block, const std::vector<int64_t>& points, double vector_bytes,
                   const CpuMachine& machine) const {
  double result = footprint.lines(points);
  if (steps_of_a_line > 1 && collides(block, vector_bytes, machine)) result *= steps_of_a_line;
  // What puts lanes together takes the place of arithmetic, however slowly lines come.
  if (moves[0]) result *= std::max(1.0, cost * (machine.step_bits() / 8.0) / vector_bytes);
  const double run = static_cast<double>(block[0]) * vector_bytes;
  return scattered && run < kShortBytes ? result * kUnasked : result;
}

// The first cache tells its sets apart by an address's place in its page, so that it need not know
// pages (measured with a Zen 4: 128 x 1024 x 1024 and 128 x 4096 x 16384, whose rows are 1 and 4
// pages, 1.17 and 1.26 times faster with 6 and 8 rows in a block than with 13 and 14).
bool Load::collides(const BlockShape& block, double vector_bytes, const CpuMachine& machine) const {
  const int64_t sets =
      std::max<int64_t>(1, machine.first_cache_bytes / kLineBytes / machine.first_cache_ways);
  const int64_t run = moves[0] ? block[0] * static_cast<int64_t>(vector_bytes) / kLineBytes : 1;
  std::vector<int64_t> lines(static_cast<size_t>(sets));
  for (int64_t row = 0; row < (bytes[1] == 0 ? 1 : block[1]); ++row)
    for (int64_t outer = 0; outer < (bytes[2] == 0 ? 1 : block[2]); ++outer)
      for (int64_t line = 0; line < std::max<int64_t>(1, run); ++line)
        ++lines[static_cast<size_t>((row * bytes[1] + outer * bytes[2]) / kLineBytes + line) %
                static_cast<size_t>(sets)];
  return *std::max_element(lines.begin(), lines.end()) > machine.first_cache_ways;
}

Effort Step::effort(const BlockShape& block, const std::vector<int64_t>& points, double row_blocks,
                    const CpuMachine& machine) const {
  double work = parts, loaded = 0, vectors = 0;
  for (int64_t size : block) work *= static_cast<double>(size);
  const bool unrolled =
      work / parts * registers * repeats <= static_cast<double>(machine::kUnrolledOperations);
  for (const Load& load : loads)
    (load.moves[0] ? vectors : loaded) +=
        load.count(block) * (unrolled ? load.share_of_windows(block) : 1);
  loaded += vectors * parts;
  const double cycles =
      std::max({work / machine.multiply_adds, loaded / machine.loads, machine.multiply_latency}) *
      repeats;
  const double bytes = count_lines(block, points, row_blocks, machine) * kLineBytes;
  return {std::max(cycles, bytes / machine.second_cache_rate()), (loaded + vectors) * repeats};
}

double Step::count_lines(const BlockShape& block, const std::vector<int64_t>& points,
                         double row_blocks, const CpuMachine& machine) const {
  double lines = 0, kept = 0;
  for (const Load& load : loads) {
    const double own = load.packed ? load.count(block) * vector_bytes / kLineBytes * repeats
                                   : load.lines(block, points, vector_bytes, machine);
    lines += own;
    if (!load.moves[1]) kept += own;
  }
  const bool stays = lines * kLineBytes <= kKept * static_cast<double>(machine.first_cache_bytes);
  return stays ? lines - kept * (1 - 1 / row_blocks) : lines;
}

}  // namespace tc::plan
