#include "poly/map_gpu.h"

#include <algorithm>

#include "poly/members.h"

namespace tc::poly {
namespace {

// Threads of a block when the options leave the choice to the compiler: enough warps to hide
// latency, few enough registers each that several blocks share a multiprocessor.
constexpr int64_t kThreads = 256;
constexpr int64_t kWarp = 32;

/// Points of a tile, member by member; the last member has consecutive addresses and thread x.
std::vector<int64_t> tile_sizes(const std::vector<Member>& members, const MappingOptions& options) {
  std::vector<int64_t> sizes(members.size(), 1);
  int64_t threads = 1;
  for (size_t k = members.size(); k-- > 0;) {
    const Member& member = members[k];
    int64_t wanted = 1;
    if (!options.automatic) {
      size_t given = static_cast<size_t>(member.position);
      wanted = given < options.tile.size() && options.tile[given] > 0 ? options.tile[given]
                                                                      : member.extent;
    } else if (k + 1 == members.size()) {
      wanted = members.size() == 1 ? kThreads : kWarp;
    } else if (k + 2 == members.size()) {
      wanted = std::max<int64_t>(1, kThreads / threads);
    }
    sizes[k] = std::min(member.extent, wanted);
    threads *= sizes[k];
  }
  return sizes;
}

}  // namespace

isl::schedule map_gpu(const Cluster& cluster, const ir::Program& program,
                      const std::map<std::string, Layout>& layouts, const MappingOptions& options) {
  if (cluster.shared == 0) return cluster.schedule;
  std::vector<Member> members = analyze_members(cluster, program, layouts);
  move_vector_last(members);
  std::vector<int64_t> sizes = tile_sizes(members, options);
  auto band =
      reorder(cluster.schedule.root().child(0).as<isl::schedule_node_band>(), positions(members));
  isl::schedule_node_band tiled = tile(band, sizes);
  isl::schedule_node node = insert_mark(tiled, "block").child(0).child(0);
  auto points = node.as<isl::schedule_node_band>();
  int extra = std::max(0, static_cast<int>(points.n_member()) - 3);
  if (extra) points = points.split(extra).child(0).as<isl::schedule_node_band>();
  return insert_mark(points, "thread").root().schedule();
}

}  // namespace tc::poly
