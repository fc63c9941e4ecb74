#include "poly/map_register_tiles.h"

#include <algorithm>

#include "poly/notes.h"

namespace tc::poly {
namespace {

// Rows of results for which a parallel tile of register blocks reuses one panel of columns.
constexpr int64_t kTileRows = 48;
/// Sizes of the tiles that run in parallel, and that have copies of their own.
std::vector<int64_t> parallel_tiles(const RegisterBlock& block, bool parallel, int cores) {
  const std::vector<Member>& members = block.members;
  size_t last = members.size() - 1;
  std::vector<int64_t> sizes(block.points);
  if (block.packed.empty()) {
    if (members.size() > 1) sizes[last - 1] *= std::max<int64_t>(1, kTileRows / sizes[last - 1]);
  } else {
    // A copy serves everything that it does not depend on.
    int64_t tiles = 1;
    std::vector<size_t> inside;
    for (size_t m = 0; m < members.size(); ++m) {
      bool moves =
          m == last ||
          std::any_of(block.packed.begin(), block.packed.end(), [&](const PackedRead& read) {
            return std::count(read.members.begin(), read.members.end(), members[m].position) > 0;
          });
      if (moves) {
        tiles *= (members[m].extent + sizes[m] - 1) / sizes[m];
      } else {
        inside.push_back(m);
        sizes[m] = static_cast<int>(m) == block.chunked ? block.chunk : members[m].extent;
        tiles *= (members[m].extent + sizes[m] - 1) / sizes[m];
      }
    }
    // Too few tiles for all cores: several of them make the same copy.
    int64_t wanted = parallel ? cores : 1;
    for (size_t m : inside) {
      if (tiles >= wanted) break;
      int64_t blocks = (members[m].extent + block.points[m] - 1) / block.points[m];
      int64_t parts = std::min(blocks, (wanted + tiles - 1) / tiles);
      sizes[m] = (blocks + parts - 1) / parts * block.points[m];
      tiles *= (members[m].extent + sizes[m] - 1) / sizes[m];
    }
  }
  for (size_t m = 0; m < members.size(); ++m) sizes[m] = std::min(sizes[m], members[m].extent);
  return sizes;
}

/// Register tiles from a band of results: tiles, their points sunk below every loop; returns the
/// node at the band's old place.
isl::schedule_node tile_registers(isl::schedule_node node, const RegisterBlock& block) {
  std::vector<int64_t> note;
  for (size_t m = 0; m < block.members.size(); ++m) {
    note.push_back(block.points[m]);
    note.push_back(block.members[m].extent % block.points[m]);
  }
  int depth = isl_schedule_node_get_tree_depth(node.get());
  if (count_tiles(block.members, block.points) > 1)
    node = tile(node.as<isl::schedule_node_band>(), block.points).child(0);
  node = insert_mark(node.as<isl::schedule_node_band>(), "register", note).child(0);
  node = sink(node.as<isl::schedule_node_band>());
  node = mark_leaves(node, "unroll");
  int above = isl_schedule_node_get_tree_depth(node.get()) - depth;
  return isl::manage(isl_schedule_node_ancestor(node.release(), above));
}

/// Copies in front of the node what the block wants packed, of all statements or of one.
isl::schedule_node promote_operands(isl::schedule_node node, const RegisterBlock& block,
                                    const Scop& scop, const CpuMachine& machine,
                                    const ScopStatement* of, Mapped& mapped) {
  for (const PackedRead& read : block.packed) {
    if (of && read.statement != of) continue;
    // Windows of several rows overlap, which the choice of stretches does not count.
    int64_t most = 2 * machine.cache_bytes / scop.program->tensor(read.read.tensor).type.bytes();
    Result<Promotion> promotion = promote(node, scop, *read.statement, read.read, read.order, 1,
                                          most, concat("P", mapped.promotions.size()));
    if (promotion)
      mapped.promotions.push_back(promotion.value());
    else
      mapped.notes.push_back({"no copy", promotion.reason()});
  }
  return node;
}

}  // namespace

bool suits_register_tiles(const Cluster& cluster) {
  return std::all_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* statement) {
                       return !ir::is_scatter(*statement->source) &&
                              statement->source->subscripts.size() == count_shared(cluster);
                     });
}

Mapped map_register_tiles(const Cluster& cluster, const RegisterBlock& block, const Scop& scop,
                          bool parallel, const CpuMachine& machine) {
  const std::vector<Member>& members = block.members;
  std::vector<int64_t> sizes = parallel_tiles(block, parallel, machine.cores);
  // A chunk is passed over by the tiles of all other members.
  std::vector<int> order = block.tile_order;
  if (block.chunked >= 0)
    std::rotate(order.begin(), std::find(order.begin(), order.end(), block.chunked),
                std::find(order.begin(), order.end(), block.chunked) + 1);
  isl::schedule_node node = insert_outer_loops(cluster.schedule.root().child(0), cluster);
  node = reorder(node.as<isl::schedule_node_band>(), positions(members));
  if (count_tiles(members, sizes) > 1) {
    isl::schedule_node_band tiled = tile(node.as<isl::schedule_node_band>(), sizes);
    tiled = reorder(tiled, order);
    node = parallel ? insert_mark(tiled, "parallel").child(0).child(0) : tiled.child(0);
  }
  Mapped mapped;
  std::string why = block.packed.empty() ? "blocks of rows that reuse a panel of columns"
                                         : "each with copies of its own";
  std::vector<Member> ordered;
  std::vector<int64_t> ordered_sizes;
  for (int m : order) {
    ordered.push_back(members[m]);
    ordered_sizes.push_back(sizes[m]);
  }
  mapped.notes = {describe_tasks(cluster, ordered, ordered_sizes, parallel, why)};
  if (block.stretch.empty()) {
    node = tile_registers(node, block);
    node = promote_operands(node, block, scop, machine, nullptr, mapped);
  } else {
    // Every statement gets tiles of its own, those that add terms below stretches of the reduction.
    isl::multi_union_pw_aff band = node.as<isl::schedule_node_band>().partial_schedule();
    node = isl::manage(isl_schedule_node_delete(node.release()));
    bool sequence = node.isa<isl::schedule_node_sequence>();
    for (size_t s = 0; s < cluster.statements.size(); ++s) {
      isl::schedule_node own = sequence ? node.child(static_cast<int>(s)).child(0) : node;
      bool reduces = own.isa<isl::schedule_node_band>();
      if (reduces) own = tile(own.as<isl::schedule_node_band>(), block.stretch).child(0);
      own = insert_permutable_band(own, band);
      own = tile_registers(own, block);
      if (reduces) own = promote_operands(own, block, scop, machine, cluster.statements[s], mapped);
      int above = isl_schedule_node_get_tree_depth(own.get()) -
                  isl_schedule_node_get_tree_depth(node.get());
      node = isl::manage(isl_schedule_node_ancestor(own.release(), above));
    }
  }
  mapped.schedule = node.root().schedule();
  return mapped;
}

}  // namespace tc::poly
