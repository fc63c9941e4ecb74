#include "poly/map_register_tiles.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tc::poly {
namespace {

// Rows of results for which a parallel tile of register blocks reuses one panel of columns.
constexpr int64_t kTileRows = 48;

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

/// Lanes of a vector of the widest result.
int count_lanes(const Cluster& cluster, const ir::Program& program, const CpuMachine& machine) {
  int bits = 8;
  for (const ScopStatement* statement : cluster.statements)
    bits = std::max(bits, program.tensor(statement->source->tensor).type.bits());
  return std::max(1, machine.vector_bits / bits);
}

}  // namespace

bool suits_register_tiles(const Cluster& cluster) {
  return std::all_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* statement) {
                       return statement->source->subscripts.size() == cluster.shared;
                     });
}

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

}  // namespace tc::poly
