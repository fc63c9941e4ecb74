#include "poly/map_cpu.h"

#include <algorithm>
#include <limits>

#include "poly/map_register_tiles.h"
#include "poly/map_rows.h"
#include "poly/map_transposed.h"
#include "poly/members.h"

namespace tc::poly {
namespace {

// Accesses below which a cluster stays on the calling thread: handing tasks out costs some
// microseconds. The same figure as PyTorch's own grain.
constexpr int64_t kGrain = 32768;
// Elementwise clusters are cut into tasks of about this many elements: large enough for the grain
// of a cheap body, small enough that a fused chain's intermediates stay in the second-level cache.
constexpr int64_t kElementwiseTile = 16384;
// The same for blocks of rows, which take one multiply-add for many elements.
constexpr int64_t kBlockedTile = 1 << 18;
// The tile of a reduction's outputs that stays in the first-level cache while terms are added.
constexpr int64_t kReductionTileVector = 64, kReductionTileOther = 8;

/// Tile sizes for rows in blocks, in the order of the members: tasks of about the same work.
std::vector<int64_t> row_tile_sizes(const Cluster& cluster, const std::vector<Member>& members,
                                    const std::vector<int64_t>& blocks,
                                    const MappingOptions& options) {
  int64_t rows = 1, elements = 0, block = 1;
  for (const Member& member : members) rows *= member.extent;
  for (int64_t size : blocks) block *= size;
  for (const ScopStatement* statement : cluster.statements) elements += instances(*statement);
  elements = std::max<int64_t>(1, elements / std::max<int64_t>(1, rows));
  int64_t task = block > 1 ? kBlockedTile : kElementwiseTile;
  std::vector<int64_t> sizes(members.size());
  for (size_t k = members.size(); k-- > 0;) {
    int64_t wanted = std::max<int64_t>(1, task / elements);
    wanted = (wanted + blocks[k] - 1) / blocks[k] * blocks[k];
    if (!options.automatic) {
      size_t given = static_cast<size_t>(members[k].position);
      wanted = given < options.tile.size() && options.tile[given] > 0 ? options.tile[given]
                                                                      : members[k].extent;
    }
    sizes[k] = std::min(members[k].extent, wanted);
    elements *= sizes[k];
  }
  return sizes;
}

// A vector operation on memory that streams through the caches.
constexpr double kCyclesPerOperation = 0.5;

/// The tree of a cluster as rows, in blocks where that shares loads.
isl::schedule map_as_rows(const Cluster& cluster, std::vector<Member> members,
                          const ir::Program& program, const std::map<std::string, Layout>& layouts,
                          const MappingOptions& options, const CpuMachine& machine, bool parallel) {
  std::vector<int64_t> block(members.size(), 1);
  if (options.automatic) block = choose_row_block(cluster, program, layouts, machine);
  // The rows of a block last; the longer member outside, so that the operand that belongs to the
  // shorter one is what the cache has to keep.
  std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    bool block_a = block[a.position] > 1, block_b = block[b.position] > 1;
    return block_a != block_b ? block_b : block_a && a.extent > b.extent;
  });
  std::vector<int64_t> blocks;
  for (const Member& member : members) blocks.push_back(block[member.position]);
  return map_rows(cluster, members, row_tile_sizes(cluster, members, blocks, options), blocks,
                  program, layouts, parallel);
}

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

/// Whether the statements' own loops make better vectors than any member of the shared band.
bool prefers_rows(double rows, const std::vector<Member>& members) {
  if (members.empty()) return rows < std::numeric_limits<double>::infinity();
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& member) { return rows < member.cost; });
}

}  // namespace

Mapped map_cpu(const Cluster& cluster, const Scop& scop,
               const std::map<std::string, Layout>& layouts, const MappingOptions& options,
               const CpuMachine& machine) {
  const ir::Program& program = *scop.program;
  std::vector<Member> members = analyze_members(cluster, program, layouts);
  // The outer loops are enough tasks.
  bool parallel =
      options.parallel && cluster.outer.empty() && count_accesses(cluster, program) >= kGrain;
  bool inner_loops = has_inner_loops(cluster);
  bool vector = options.vectorize && move_vector_last(members);
  double rows = options.vectorize ? row_cost(cluster, program, layouts)
                                  : std::numeric_limits<double>::infinity();
  if (options.automatic && vector && inner_loops && suits_register_tiles(cluster)) {
    RegisterBlock block = choose_block(cluster, members, program, layouts, machine);
    block.alternative = rows * kCyclesPerOperation;
    if (block.cycles <= block.alternative)
      return map_register_tiles(cluster, block, scop, parallel, machine);
  }
  if (prefers_rows(rows, members)) {
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.position < b.position; });
    return {
        map_as_rows(cluster, members, program, layouts, options, machine, parallel),
        {},
        {concat("rows: every statement has vectors along its own loop below ",
                members.empty() ? "nothing" : "the shared ones", parallel ? ", in parallel" : "")}};
  }
  if (cluster.shared == 0) return {cluster.schedule, {}, {"loops without a vector"}};
  if (options.automatic && vector && !inner_loops)
    if (auto mapped = map_transposed(cluster, members, scop, layouts, parallel)) return *mapped;
  std::vector<int64_t> sizes = tile_sizes(members, vector, inner_loops, options);

  isl::schedule_node below = insert_outer_loops(cluster.schedule.root().child(0), cluster);
  isl::schedule_node_band band = reorder(below.as<isl::schedule_node_band>(), positions(members));
  isl::schedule_node node = band;
  if (count_tiles(members, sizes) > 1) {
    isl::schedule_node_band tiled = tile(band, sizes);
    node = parallel ? insert_mark(tiled, "parallel").child(0).child(0) : tiled.child(0);
  }
  // Below inner loops the points come last, so that the vector stays innermost.
  if (inner_loops) node = sink(node.as<isl::schedule_node_band>());
  std::string note =
      concat(parallel ? "parallel tiles: " : "tiles: ", describe_tiles(cluster, members, sizes));
  if (!vector) return {node.root().schedule(), {}, {note, "no vector"}};
  node = inner_loops ? mark_leaves(node, "") : mark_points(node.as<isl::schedule_node_band>(), "");
  return {node.root().schedule(), {}, {note, "vectors along " + name_of(cluster, members.back())}};
}

}  // namespace tc::poly
