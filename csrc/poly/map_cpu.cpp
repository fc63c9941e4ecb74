#include "poly/map_cpu.h"

#include <algorithm>

#include "poly/map_register_tiles.h"
#include "poly/members.h"

namespace tc::poly {
namespace {

// Accesses below which a cluster stays on the calling thread: handing tasks out costs some
// microseconds. The same figure as PyTorch's own grain.
constexpr int64_t kGrain = 32768;
// Elementwise clusters are cut into tasks of about this many elements: large enough for the grain
// of a cheap body, small enough that a fused chain's intermediates stay in the second-level cache.
constexpr int64_t kElementwiseTile = 16384;
// The tile of a reduction's outputs that stays in the first-level cache while terms are added.
constexpr int64_t kReductionTileVector = 64, kReductionTileOther = 8;

/// Tile sizes in the order of the members, whose last is the vector if there is one.
std::vector<int64_t> tile_sizes(const std::vector<Member>& members, bool vector, bool inner_loops,
                                const MappingOptions& options) {
  std::vector<int64_t> sizes(members.size());
  int64_t elements = 1;
  for (size_t k = members.size(); k-- > 0;) {
    const Member& member = members[k];
    size_t from_last = members.size() - 1 - k;
    int64_t wanted = 1;
    if (!options.automatic) {
      size_t given = static_cast<size_t>(member.position);
      wanted = given < options.tile.size() && options.tile[given] > 0 ? options.tile[given]
                                                                      : member.extent;
    } else if (!inner_loops) {
      wanted = std::max<int64_t>(1, kElementwiseTile / elements);
    } else if (from_last == 0 && vector) {
      wanted = kReductionTileVector;
    } else if (from_last < 2) {
      wanted = kReductionTileOther;
    }
    sizes[k] = std::min(member.extent, wanted);
    elements *= sizes[k];
  }
  return sizes;
}

}  // namespace

Mapped map_cpu(const Cluster& cluster, const Scop& scop,
               const std::map<std::string, Layout>& layouts, const MappingOptions& options,
               const CpuMachine& machine) {
  if (cluster.shared == 0) return {cluster.schedule, {}};
  const ir::Program& program = *scop.program;
  std::vector<Member> members = analyze_members(cluster, program, layouts);
  bool vector = options.vectorize && move_vector_last(members);
  bool inner_loops = has_inner_loops(cluster);
  bool parallel = options.parallel && count_accesses(cluster, program) >= kGrain;
  if (options.automatic && vector && inner_loops && suits_register_tiles(cluster))
    return map_register_tiles(cluster, members, scop, layouts, parallel, machine);
  std::vector<int64_t> sizes = tile_sizes(members, vector, inner_loops, options);

  isl::schedule_node_band band =
      reorder(cluster.schedule.root().child(0).as<isl::schedule_node_band>(), positions(members));
  isl::schedule_node node = band;
  if (count_tiles(members, sizes) > 1) {
    isl::schedule_node_band tiled = tile(band, sizes);
    node = parallel ? insert_mark(tiled, "parallel").child(0).child(0) : tiled.child(0);
  }
  // Below inner loops the points come last, so that the vector stays innermost.
  if (inner_loops) node = sink(node.as<isl::schedule_node_band>());
  if (!vector) return {node.root().schedule(), {}};
  node = inner_loops ? mark_leaves(node, "") : mark_points(node.as<isl::schedule_node_band>(), "");
  return {node.root().schedule(), {}};
}

}  // namespace tc::poly
