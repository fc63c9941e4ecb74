#include "poly/map_gpu.h"

#include <algorithm>

#include "base/error.h"
#include "base/passes.h"
#include "poly/members.h"
#include "poly/notes.h"

namespace tc::poly {
namespace {

const Pass kOneThread("mapping", "one_thread");
const Pass kBlocksAndThreads("mapping", "blocks_and_threads");

// Threads of a block when the options leave the choice to the compiler: enough warps to hide
// latency, few enough registers each that several blocks share a multiprocessor.
constexpr int64_t kThreads = 256;
constexpr int64_t kWarp = 32;

// Dimensions of a block.
constexpr size_t kAxes = 3;
// What CUDA allows on the third of them.
constexpr int64_t kMostOnZ = 64;

/// Iterations of the members beside the last one that may be threads of the same block.
int64_t others_on_threads(const std::vector<Member>& members) {
  int64_t count = 1;
  for (size_t axis = 1; axis < std::min(kAxes, members.size()); ++axis)
    count = std::min(kThreads, count * members[members.size() - 1 - axis].extent);
  return count;
}

/// Where the members on threads x and y are short and the next one would leave most of a block
/// empty, the longest of the others comes in its place.
void fill_block(std::vector<Member>& members) {
  if (members.size() <= kAxes) return;
  const auto z = members.end() - static_cast<long>(kAxes);
  if (z[0].extent * z[1].extent * z[2].extent >= kThreads / 2) return;
  const auto longest = std::max_element(
      members.begin(), z + 1, [](const Member& a, const Member& b) { return a.extent < b.extent; });
  std::rotate(longest, longest + 1, z + 1);
}

/// Points of a tile, member by member; the last member has consecutive addresses and thread x.
/// Where that one is too short to fill a block the next ones on threads have the rest: neighbours
/// in memory, too, where they are the next dimensions.
std::vector<int64_t> tile_sizes(const std::vector<Member>& members, const MappingOptions& options) {
  std::vector<int64_t> sizes(members.size(), 1);
  int64_t threads = 1;
  for (size_t k = members.size(); k-- > 0;) {
    const Member& member = members[k];
    const size_t axis = members.size() - 1 - k;
    int64_t wanted = 1;
    if (!options.automatic) {
      size_t given = static_cast<size_t>(member.position);
      wanted = given < options.tile.size() && options.tile[given] > 0 ? options.tile[given]
                                                                      : member.extent;
    } else if (axis == 0) {
      wanted = std::max(kWarp, kThreads / others_on_threads(members) / kWarp * kWarp);
    } else if (axis < kAxes) {
      wanted = std::max<int64_t>(1, kThreads / threads);
      if (axis + 1 == kAxes) wanted = std::min(wanted, kMostOnZ);
    }
    sizes[k] = std::min(member.extent, wanted);
    threads *= sizes[k];
  }
  return sizes;
}

/// Members on threads, and what each would cost as thread x: memory operations of a whole warp.
Notes describe(const Cluster& cluster, const std::vector<Member>& members,
               const std::vector<int64_t>& sizes, const MappingOptions& options) {
  std::vector<std::string> threads, serial;
  std::vector<std::pair<std::string, std::string>> costs;
  int64_t count = 1;
  for (size_t axis = 0; axis < members.size(); ++axis) {
    size_t k = members.size() - 1 - axis;
    std::string name = name_of(cluster, members[k]), points = concat(sizes[k], " of ", name);
    if (members[k].extent > 1) costs.emplace_back(count_text(members[k].cost), name + " on x");
    if (axis >= kAxes && sizes[k] > 1) serial.push_back(points);
    if (axis >= kAxes || (axis > 0 && sizes[k] == 1)) continue;
    threads.push_back(concat(points, " on ", "xyz"[axis]));
    count *= sizes[k];
  }
  std::string text = concat(join(threads), ": ", count);
  if (options.automatic)
    text += concat("; ", kThreads, " hide the latency of memory");
  else
    text += ", as the options' tiles say";
  if (!serial.empty()) text += "; each takes " + join(serial);
  Notes notes = {{"form", "a block of threads for every tile, a thread for every point"},
                 {"threads", text},
                 {"blocks", concat(count_tiles(members, sizes), ": ",
                                   describe_tiles(cluster, members, sizes))}};
  if (costs.size() > 1) notes.push_back({"accesses", table(costs)});
  return notes;
}

/// Tiles of the shared band as blocks, and their points as threads.
Mapped map_threads(const Cluster& cluster, const ir::Program& program,
                   const std::map<std::string, Layout>& layouts, const MappingOptions& options) {
  std::vector<Member> members = analyze_members(cluster, program, layouts, kWarp);
  move_vector_last(members);
  if (options.automatic) {
    // Those of one iteration would take a dimension of the block.
    std::stable_partition(members.begin(), members.end(),
                          [](const Member& member) { return member.extent == 1; });
    fill_block(members);
  }
  std::vector<int64_t> sizes = tile_sizes(members, options);
  auto band =
      reorder(cluster.schedule.root().child(0).as<isl::schedule_node_band>(), positions(members));
  isl::schedule_node_band tiled = tile(band, sizes);
  isl::schedule_node node = insert_mark(tiled, "block").child(0).child(0);
  auto points = node.as<isl::schedule_node_band>();
  int extra = std::max(0, static_cast<int>(points.n_member()) - static_cast<int>(kAxes));
  if (extra) points = points.split(extra).child(0).as<isl::schedule_node_band>();
  return {insert_mark(points, "thread").root().schedule(),
          {},
          describe(cluster, members, sizes, options)};
}

}  // namespace

Mapped map_gpu(const Cluster& cluster, const ir::Program& program,
               const std::map<std::string, Layout>& layouts, const MappingOptions& options) {
  Mapped mapped;
  if (cluster.shared == 0) {
    run_always(kOneThread, [&] {
      mapped = {
          cluster.schedule, {}, {{"form", "one thread: the statements share no parallel loop"}}};
    });
  } else {
    run_always(kBlocksAndThreads,
               [&] { mapped = map_threads(cluster, program, layouts, options); });
  }
  return mapped;
}

}  // namespace tc::poly
