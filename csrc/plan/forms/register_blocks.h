// Which block of results to keep in registers: a model of cycles.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/forms/block_effort.h"

namespace tc::plan {

/// A choice for a cluster of reductions.
struct RegisterBlock {
  std::vector<Member> members;  ///< in loop order, the vector last
  std::vector<int64_t> points;  ///< of the block along each of them
  /// Numbers of the members in the order of parallel tiles: the vector comes before those whose
  /// results lie between its lanes, so that the next tile finds the lines that it adds its part to.
  std::vector<int> tile_order;
  std::vector<PackedRead> packed;
  /// Iterations of the reduction's loops, outermost first, between which the block rests in memory
  /// and copies are made anew; empty when the copies for the whole reduction fit in the cache.
  std::vector<int64_t> reduction_tile;
  /// Of every member, so many points that are taken at a time, 0 where it is not cut: they read no
  /// more of an operand that lies where it is than a cache keeps while the tiles of the other
  /// members use it again.
  std::vector<int64_t> chunks;
  /// How many rows in front of the vector may use a panel of columns one after the other so that
  /// what they read beside it is still in the cache for the next panel; 0 where it lies far apart.
  int64_t near_rows = 0;
  std::vector<Footprint> footprints;  ///< of what is read where it lies
  double copies = 0;                  ///< cycles of copies
  double moves = 0;                   ///< the same, and of results to and from memory
  double cycles = 0;                  ///< of the whole cluster on one core
  std::map<int, double>
      vectors;    ///< the fewest cycles with each member, by position, as the vector
  int lanes = 1;  ///< of a vector
};

/// Sets its members to those of the band, and its points to so many along these dimensions.
void set_members(RegisterBlock& block, const std::vector<Member>& band,
                 const BlockMembers& dimensions, const BlockShape& points);
/// Points of such a block along the members that a copy moves along.
int64_t width_of(const PackedRead& read, const BlockMembers& dimensions, const BlockShape& points);

/// What is given of a block.
struct BlockLimits {
  /// Points of a task along each member, by position, which has whole blocks; 0 and none: open.
  std::vector<int64_t> tasks;
  int vector = -1;  ///< position of the member; -1: any

  /// Along a dimension of a block, which may be none.
  int64_t points_of_task(const Member* member) const;
  /// Whether given tasks have whole blocks of so many points.
  bool fill_tasks(const BlockMembers& dimensions, const BlockShape& points) const;
};

/// The best block, and behind it others that nearly are, from which a closer model may choose; none
/// where the limits leave none. `members` come in order of preference, the last first.
std::vector<RegisterBlock> choose_blocks(const ClusterContext& in,
                                         const std::vector<Member>& members,
                                         const BlockLimits& limits = {});

}  // namespace tc::plan
