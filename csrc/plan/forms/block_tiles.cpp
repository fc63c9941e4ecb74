#include "plan/forms/block_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/numbers.h"

namespace tc::plan {
namespace {

// Steps of this many lines find their line in the first cache (measured: 16 lines, a quarter of its
// sets, do not).
constexpr int64_t kNearLines = 4;
// From walks of so many bytes on, most of what these steps go over has been fetched ahead of them
// (measured with a Xeon, read where it lies or in chunks that its second cache keeps: 4 images of
// 1024 rows of 784 bytes 2.33 and 2.05 ms, 1000 rows of 4 KB 1.21 and 1.22, 1024 rows 10.1 and 11).
constexpr int64_t kFetchedBytes = 2048;
// The part of that time which copies for chunks may take where operands are waited for, or else of
// the whole time (measured: 16 images of 1024 x 7 x 7 by twos with 2048 filters, 0.35 and 0.16, 1.3
// times faster; 128 and 1024 x 1024 x 1024 in chunks for a cache of 256 KiB, whose rows are fetched
// ahead, 0.07 and 0.14 of the whole time, 1.1 and 1.2 times slower).
constexpr double kCopiesOfStream = 0.4, kCopiesOfAll = 0.05;
// Another order of tiles has to spare that much of the time (measured with a cache of 512 KiB: 28 x
// 28 shifted places of 256 channels 1.1 to 1.2 times faster with the vector's tiles innermost).
constexpr double kSpared = 0.03;
// Loops whose orders are compared.
constexpr size_t kMostLoops = 5;

/// What is read where it lies.
struct InPlace {
  Footprint footprint;
  bool ahead = false;  ///< the processor fetches what a reduction walks along
};

class Arranger {
 public:
  Arranger(const Operands& operands, const CpuMachine& machine, RegisterBlock& block)
      : operands_(operands),
        cache_(static_cast<double>(machine.cache_bytes)),
        last_cache_rate_(machine.last_cache_rate),
        block_(block),
        extents_(block.members.size()),
        points_(block.members.size()) {
    for (size_t m = 0; m < block.members.size(); ++m) {
      positions_.push_back(block.members[m].position);
      extents_[positions_[m]] = block.members[m].extent;
      points_[positions_[m]] = block.points[m];
    }
    for (const Update& update : operands.updates())
      for (const Operand& operand : update.operands)
        if (!operand.access.write && !is_packed(operand))
          in_place_.push_back({operands.footprint(update, operand),
                               operands.near_bytes(update, operand, kNearLines) >= kFetchedBytes});
  }

  void run() {
    block_.tile_order = order_by_results();
    if (!block_.packed.empty() && block_.reduction_tile.empty()) choose_chunks();
    if (block_.members.size() > 1) block_.near_rows = count_near_rows();
    for (const InPlace& read : in_place_) block_.footprints.push_back(read.footprint);
  }

 private:
  /// Numbers of the members as the block has them, but the vector in front of those that a result
  /// moves less far along.
  std::vector<int> order_by_results() const {
    std::vector<int> order(positions_.size());
    std::iota(order.begin(), order.end(), 0);
    const int vector = order.back();
    const Operand& written = operands_.updates().front().operands.back();
    auto stride = [&](int m) { return written.strides[positions_[m]].value_or(0); };
    order.pop_back();
    auto near = std::stable_partition(order.begin(), order.end(),
                                      [&](int m) { return stride(m) >= stride(vector); });
    order.insert(near, vector);
    return order;
  }

  /// Cuts the outermost members that no copy moves along until the second cache keeps what is read
  /// where it lies and tiles of other members read again: one by one, the last of them as far as
  /// needed. None where the copies that this takes cost too much beside reading from the last
  /// cache.
  void choose_chunks() {
    std::vector<int64_t> points = extents_, sizes(positions_.size(), 0);
    double chunks = 1;
    for (size_t m = 0; m < positions_.size() && bytes_read_again(points) > cache_; ++m) {
      const int position = positions_[m];
      if (std::any_of(block_.packed.begin(), block_.packed.end(), [&](const PackedRead& read) {
            return std::count(read.members.begin(), read.members.end(), position) > 0;
          }))
        continue;
      auto bytes_of = [&](int64_t blocks) {
        points[position] = blocks * points_[position];
        return bytes_read_again(points);
      };
      const int64_t extent = extents_[position];
      int64_t fits = 1, exceeds = divide_up(extent, points_[position]);
      while (exceeds - fits > 1) {
        const int64_t middle = fits + (exceeds - fits) / 2;
        (bytes_of(middle) <= cache_ ? fits : exceeds) = middle;
      }
      bytes_of(fits);
      if (points[position] >= extent) continue;
      sizes[m] = points[position];
      chunks *= std::ceil(static_cast<double>(extent) / static_cast<double>(sizes[m]));
    }
    const double copies = (chunks - 1) * block_.copies;
    if (chunks > 1 && bytes_read_again(points) <= cache_ &&
        (copies <= kCopiesOfStream * bytes_waited_for() / last_cache_rate_ ||
         copies <= kCopiesOfAll * block_.cycles))
      block_.chunks = sizes;
  }

  /// The most that is read of an operand where it lies by so many points, for several tiles.
  double bytes_read_again(const std::vector<int64_t>& points) const {
    double most = 0;
    for (const InPlace& read : in_place_)
      if (times_read(read.footprint) > 1) most = std::max(most, read.footprint.bytes(points));
    return most;
  }

  /// The most that the last cache brings of an operand for all tiles but the first, and too late:
  /// what the reduction walks along is fetched ahead.
  double bytes_waited_for() const {
    double most = 0;
    for (const auto& [footprint, ahead] : in_place_)
      if (!ahead) most = std::max(most, footprint.bytes(extents_) * (times_read(footprint) - 1));
    return most;
  }

  /// Tiles of the members that an operand does not move along.
  double times_read(const Footprint& footprint) const {
    double times = 1;
    for (int position : positions_)
      if (!footprint.moves(position))
        times *= std::ceil(static_cast<double>(extents_[position]) /
                           static_cast<double>(points_[position]));
    return times;
  }

  bool is_packed(const Operand& operand) const {
    return std::any_of(block_.packed.begin(), block_.packed.end(), [&](const PackedRead& read) {
      return read.read.tensor == operand.access.tensor;
    });
  }

  /// See RegisterBlock::near_rows.
  int64_t count_near_rows() const {
    const int row = positions_[positions_.size() - 2], vector = positions_.back();
    const std::vector<int64_t> point(positions_.size(), 1);
    double bytes = 0;
    for (const Update& update : operands_.updates()) {
      for (const Operand& operand : update.operands) {
        if (operand.access.write || operand.strides[row] == 0 || operand.strides[vector] != 0)
          continue;
        if (operands_.near_bytes(update, operand, kNearLines) == 0) return 0;
        bytes += operands_.footprint(update, operand).bytes(point);
      }
    }
    return bytes == 0 ? 0 : static_cast<int64_t>(cache_ / 2 / bytes);
  }

  const Operands& operands_;
  const double cache_;  ///< bytes
  double last_cache_rate_;
  RegisterBlock& block_;
  // By position of the member, but for positions_ themselves.
  std::vector<int> positions_;
  std::vector<int64_t> extents_, points_;
  std::vector<InPlace> in_place_;
};

/// Bytes that loops over tiles, by number of the member, outermost first, bring from the last
/// cache: an operand is kept while everything that is read in between fits.
double traffic(const RegisterBlock& block, const std::vector<int64_t>& sizes,
               const std::vector<int>& loops, double cache) {
  std::vector<int64_t> points(block.members.size());
  for (size_t m = 0; m < sizes.size(); ++m) points[block.members[m].position] = sizes[m];
  std::vector<double> bytes, brought;
  for (const Footprint& footprint : block.footprints) bytes.push_back(footprint.bytes(points));
  brought = bytes;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    const bool kept = std::accumulate(bytes.begin(), bytes.end(), 0.0) <= cache;
    const Member& member = block.members[*loop];
    int64_t& size = points[member.position];
    const double count = std::ceil(static_cast<double>(member.extent) / static_cast<double>(size));
    size = member.extent;
    for (size_t k = 0; k < bytes.size(); ++k) {
      const double whole = block.footprints[k].bytes(points);
      brought[k] *= kept ? whole / bytes[k] : count;
      bytes[k] = whole;
    }
  }
  return std::accumulate(brought.begin(), brought.end(), 0.0);
}

}  // namespace

std::vector<int> order_by_traffic(const RegisterBlock& block, const std::vector<int64_t>& sizes,
                                  const CpuMachine& machine) {
  // Loops of one tile may stand anywhere.
  std::vector<int> loops;
  auto is_loop = [&](int m) { return block.members[m].extent > sizes[m]; };
  for (int m : block.tile_order)
    if (is_loop(m)) loops.push_back(m);
  if (loops.size() < 2 || loops.size() > kMostLoops) return block.tile_order;
  const auto cache = static_cast<double>(machine.cache_bytes);
  const double spared = kSpared * block.cycles * machine.last_cache_rate;
  double least = traffic(block, sizes, loops, cache);
  std::vector<int> best = loops, numbers(loops.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  while (std::next_permutation(numbers.begin(), numbers.end())) {
    std::vector<int> order;
    for (int number : numbers) order.push_back(loops[number]);
    const double bytes = traffic(block, sizes, order, cache);
    if (bytes + spared >= least) continue;
    least = bytes;
    best = order;
  }
  std::vector<int> result = block.tile_order;
  auto next = best.begin();
  for (int& m : result)
    if (is_loop(m)) m = *next++;
  return result;
}

void arrange_tiles(const Operands& operands, const CpuMachine& machine, RegisterBlock& block) {
  Arranger(operands, machine, block).run();
}

}  // namespace tc::plan
