#include "poly/map_cpu.h"

#include <algorithm>
#include <limits>
#include <tuple>

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
// Rows of results for which a parallel tile of register blocks reuses one panel of columns.
constexpr int64_t kTileRows = 48;

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

/// A register block: rows of whole vectors.
struct RegisterBlock {
  int64_t rows = 1, columns = 1;  ///< points
};

/// The block that takes the fewest cycles over all tiles of rows x columns results, tails included,
/// on a machine that starts two multiply-adds and two loads a cycle and takes four cycles to finish
/// one: a step of a block takes as long as its multiply-adds, its loads, or the latency.
RegisterBlock choose_block(int64_t rows, int64_t columns, int lanes, int registers) {
  auto step = [](int64_t r, int64_t v) {
    return std::max({static_cast<double>(r * v) / 2, static_cast<double>(r + v) / 2, 4.0});
  };
  RegisterBlock best;
  double best_cycles = std::numeric_limits<double>::infinity();
  int64_t most_vectors = std::min<int64_t>(4, (columns + lanes - 1) / lanes);
  for (int64_t v = most_vectors; v >= 1; --v) {
    int64_t width = std::min(columns, v * lanes);
    int64_t rest_columns = columns % width, rest_vectors = (rest_columns + lanes - 1) / lanes;
    for (int64_t r = std::min<int64_t>(rows, 14); r >= 1; --r) {
      // One register broadcasts, one is left to the compiler.
      if (r * v + v + 2 > registers) continue;
      auto column = [&](int64_t height) {
        return static_cast<double>(columns / width) * step(height, v) +
               (rest_columns ? step(height, rest_vectors) : 0);
      };
      double cycles = static_cast<double>(rows / r) * column(r) + (rows % r ? column(rows % r) : 0);
      if (cycles < best_cycles * 0.999) {
        best_cycles = cycles;
        best = {r, width};
      }
    }
  }
  return best;
}

/// Whether every statement computes results in the shared band's dimensions alone, so that a tile
/// of the band is a tile of every result.
bool suits_register_tiles(const Cluster& cluster) {
  return std::all_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* statement) {
                       return statement->source->subscripts.size() == cluster.shared;
                     });
}

/// Lanes of a vector of the widest result.
int count_lanes(const Cluster& cluster, const ir::Program& program, const CpuMachine& machine) {
  int bits = 8;
  for (const ScopStatement* statement : cluster.statements)
    bits = std::max(bits, program.tensor(statement->source->tensor).type.bits());
  return std::max(1, machine.vector_bits / bits);
}

/// Marks the last member of a band as the vector loop, and the others as `others` if that is
/// something; returns the node at the band's old place.
isl::schedule_node mark_points(const isl::schedule_node_band& band, const std::string& others) {
  int members = static_cast<int>(band.n_member());
  if (members == 1) return insert_mark(band, "vector");
  auto inner = band.split(members - 1).child(0).as<isl::schedule_node_band>();
  auto outer = insert_mark(inner, "vector").parent().as<isl::schedule_node_band>();
  return others.empty() ? isl::schedule_node(outer) : insert_mark(outer, others);
}

/// Marks the points in the band that `sink` left above every leaf.
isl::schedule_node mark_leaves(isl::schedule_node node, const std::string& others) {
  if (node.isa<isl::schedule_node_leaf>()) return node;
  if (node.isa<isl::schedule_node_band>() && node.child(0).isa<isl::schedule_node_leaf>())
    return mark_points(node.as<isl::schedule_node_band>(), others);
  int children = isl_schedule_node_n_children(node.get());
  for (int c = 0; c < children; ++c) node = mark_leaves(node.child(c), others).parent();
  return node;
}

int64_t count_tiles(const std::vector<Member>& members, const std::vector<int64_t>& sizes) {
  int64_t tiles = 1;
  for (size_t k = 0; k < members.size(); ++k)
    tiles *= (members[k].extent + sizes[k] - 1) / sizes[k];
  return tiles;
}

/// The tree of a cluster of reductions with register tiles: parallel tiles, register tiles of the
/// same rows of results one after the other, then the points, innermost under every statement.
isl::schedule map_register_tiles(const Cluster& cluster, std::vector<Member> members,
                                 const ir::Program& program,
                                 const std::map<std::string, Layout>& layouts, bool parallel,
                                 const CpuMachine& machine) {
  // The rows of the block: where most vector loads are reused, and among equals the innermost.
  size_t last = members.size() - 1;
  auto rank = [&](const Member& m) {
    return std::make_tuple(m.extent > 1, vector_reuse(cluster, program, layouts, m, members[last]),
                           m.position);
  };
  auto row = std::max_element(members.begin(), members.end() - 1,
                              [&](const Member& a, const Member& b) { return rank(a) < rank(b); });
  if (row < members.end() - 1) std::rotate(row, row + 1, members.end() - 1);
  int lanes = count_lanes(cluster, program, machine);
  while (lanes > members[last].extent) lanes /= 2;
  int64_t rows = members.size() > 1 ? members[last - 1].extent : 1;
  RegisterBlock block = choose_block(rows, members[last].extent, lanes, machine.vector_registers);
  std::vector<int64_t> points(members.size(), 1), sizes(members.size(), 1);
  points[last] = block.columns;
  sizes[last] = block.columns;
  if (members.size() > 1) {
    points[last - 1] = block.rows;
    int64_t blocks = std::max<int64_t>(1, kTileRows / block.rows);
    sizes[last - 1] = block.rows * blocks;
  }
  std::vector<int64_t> note;
  for (size_t k = 0; k < members.size(); ++k) {
    sizes[k] = std::min(sizes[k], members[k].extent);
    note.push_back(points[k]);
    note.push_back(members[k].extent % points[k]);
  }
  isl::schedule_node node =
      reorder(cluster.schedule.root().child(0).as<isl::schedule_node_band>(), positions(members));
  if (count_tiles(members, sizes) > 1) {
    isl::schedule_node_band tiled = tile(node.as<isl::schedule_node_band>(), sizes);
    node = parallel ? insert_mark(tiled, "parallel").child(0).child(0) : tiled.child(0);
  }
  if (count_tiles(members, points) > 1)
    node = tile(node.as<isl::schedule_node_band>(), points).child(0);
  node = insert_mark(node.as<isl::schedule_node_band>(), "register", note).child(0);
  node = sink(node.as<isl::schedule_node_band>());
  return mark_leaves(node, "unroll").root().schedule();
}

}  // namespace

isl::schedule map_cpu(const Cluster& cluster, const ir::Program& program,
                      const std::map<std::string, Layout>& layouts, const MappingOptions& options,
                      const CpuMachine& machine) {
  if (cluster.shared == 0) return cluster.schedule;
  std::vector<Member> members = analyze_members(cluster, program, layouts);
  bool vector = options.vectorize && move_vector_last(members);
  bool inner_loops = has_inner_loops(cluster);
  bool parallel = options.parallel && count_accesses(cluster, program) >= kGrain;
  if (options.automatic && vector && inner_loops && suits_register_tiles(cluster))
    return map_register_tiles(cluster, members, program, layouts, parallel, machine);
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
  if (!vector) return node.root().schedule();
  node = inner_loops ? mark_leaves(node, "") : mark_points(node.as<isl::schedule_node_band>(), "");
  return node.root().schedule();
}

}  // namespace tc::poly
