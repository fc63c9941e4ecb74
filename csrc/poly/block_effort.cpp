#include "poly/block_effort.h"

#include <algorithm>

#include "base/memory.h"

namespace tc::poly {
namespace {

// Shorter runs that several steps share, each somewhere else than the one before, come at half that
// rate: neither the processor nor a prefetch of ours asks for them (measured with vectors of 8: 64
// filters of 64 x 56 x 56, 3 x 3, 1.15 times faster along the filters than along rows of two
// images).
constexpr double kShortBytes = 256, kUnasked = 2;
// Bytes of a block that the first cache, of 32 KiB, keeps for the next one.
constexpr double kFirstCache = 24 * 1024;
// The first cache tells its sets apart by an address's place in its page, so that it need not know
// pages; a set has at least so many places for lines (measured with a Zen 4: 128 x 1024 x 1024 and
// 128 x 4096 x 16384, whose rows are 1 and 4 pages, 1.17 and 1.26 times faster with 6 and 8 rows in
// a block than with 13 and 14).
constexpr int64_t kSets = kPageBytes / kLineBytes, kWays = 8;

}  // namespace

double Load::count(const BlockShape& block) const {
  double result = cost;
  for (size_t d = 0; d < block.size(); ++d)
    if (moves[d]) result *= static_cast<double>(block[d]);
  return result;
}

double Load::lines(const BlockShape& block, const std::vector<int64_t>& points, double vector_bytes,
                   double unit_bytes) const {
  double result = footprint.lines(points);
  if (steps_of_a_line > 1 && collides(block, vector_bytes)) result *= steps_of_a_line;
  // What puts lanes together takes the place of arithmetic, however slowly lines come.
  if (moves[0]) result *= std::max(1.0, cost * unit_bytes / vector_bytes);
  const double run = static_cast<double>(block[0]) * vector_bytes;
  return scattered && run < kShortBytes ? result * kUnasked : result;
}

bool Load::collides(const BlockShape& block, double vector_bytes) const {
  const int64_t run = moves[0] ? block[0] * static_cast<int64_t>(vector_bytes) / kLineBytes : 1;
  std::array<int64_t, kSets> lines = {};
  for (int64_t row = 0; row < (bytes[1] == 0 ? 1 : block[1]); ++row)
    for (int64_t outer = 0; outer < (bytes[2] == 0 ? 1 : block[2]); ++outer)
      for (int64_t line = 0; line < std::max<int64_t>(1, run); ++line)
        ++lines[((row * bytes[1] + outer * bytes[2]) / kLineBytes + line) % kSets];
  return *std::max_element(lines.begin(), lines.end()) > kWays;
}

Effort Step::effort(const BlockShape& block, const std::vector<int64_t>& points,
                    double row_blocks) const {
  double work = parts, loaded = 0, vectors = 0;
  for (int64_t size : block) work *= static_cast<double>(size);
  for (const Load& load : loads) {
    (load.moves[0] ? vectors : loaded) += load.count(block);
  }
  loaded += vectors * parts;
  const double cycles = std::max({work / 2, loaded / 2, kLatency}) * repeats;
  const double bytes = count_lines(block, points, row_blocks) * kLineBytes;
  return {std::max(cycles, bytes / (kStream * unit_bytes)), (loaded + vectors) * repeats};
}

double Step::count_lines(const BlockShape& block, const std::vector<int64_t>& points,
                         double row_blocks) const {
  double lines = 0, kept = 0;
  for (const Load& load : loads) {
    const double own = load.packed ? load.count(block) * vector_bytes / kLineBytes * repeats
                                   : load.lines(block, points, vector_bytes, unit_bytes);
    lines += own;
    if (!load.moves[1]) kept += own;
  }
  return lines * kLineBytes <= kFirstCache ? lines - kept * (1 - 1 / row_blocks) : lines;
}

}  // namespace tc::poly
