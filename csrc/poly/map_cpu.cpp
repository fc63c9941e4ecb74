#include "poly/map_cpu.h"

#include <algorithm>
#include <limits>

#include "base/passes.h"
#include "poly/map_register_tiles.h"
#include "poly/map_rows.h"
#include "poly/map_scatter.h"
#include "poly/map_transposed.h"
#include "poly/members.h"
#include "poly/notes.h"

namespace tc::poly {
namespace {

const Pass kScatter("mapping", "scatter");
const Pass kRegisterTiles("mapping", "register_tiles");
const Pass kRows("mapping", "rows");
const Pass kBlocksOfRows("mapping", "blocks_of_rows");
const Pass kTransposed("mapping", "transposed");
const Pass kTilesInMemory("mapping", "tiles_in_memory");
const Pass kElements("mapping", "elements");
const Pass kScalarLoops("mapping", "scalar_loops");

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

/// Elements for a task of rows in these blocks.
int64_t row_task(const std::vector<int64_t>& blocks, const CpuMachine& machine) {
  bool blocked = std::any_of(blocks.begin(), blocks.end(), [](int64_t size) { return size > 1; });
  return machine.least(blocked ? kBlockedTile : kElementwiseTile);
}

/// Where the sizes of tiles of about so many elements come from.
std::string describe_sizes(const MappingOptions& options, int64_t elements) {
  return options.automatic ? concat("aiming at ", elements, " elements each")
                           : std::string("as the options say");
}

/// Tile sizes for rows in blocks, in the order of the members: tasks of about the same work.
std::vector<int64_t> row_tile_sizes(const Cluster& cluster, const std::vector<Member>& members,
                                    const std::vector<int64_t>& blocks,
                                    const MappingOptions& options, const CpuMachine& machine) {
  int64_t rows = 1, elements = 0;
  for (const Member& member : members) rows *= member.extent;
  for (const ScopStatement* statement : cluster.statements) elements += instances(*statement);
  elements = std::max<int64_t>(1, elements / std::max<int64_t>(1, rows));
  int64_t task = row_task(blocks, machine);
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

/// How the statements of a cluster share the loops over the points of a tile that the options give:
/// as a form does by itself, or as they say.
FusionStrategy fusion_in_tiles(const Cluster& cluster, const MappingOptions& options) {
  const bool tiled = !options.automatic && !options.tile.empty() && cluster.shared > 0;
  return tiled && cluster.statements.size() > 1 ? options.intra_tile_fusion
                                                : FusionStrategy::Preserve3Coincident;
}

/// The points of a tile, with statements that share them or each with points of its own, which lie
/// below its own loops so that the vector is innermost; marks the vector.
isl::schedule_node place_points(isl::schedule_node node, bool inner_loops, bool vector,
                                FusionStrategy fusion) {
  auto band = node.as<isl::schedule_node_band>();
  const int members = static_cast<int>(band.n_member());
  const bool apart = inner_loops ? fusion != FusionStrategy::Max || (vector && members == 1)
                                 : fusion == FusionStrategy::Min;
  if (apart) {
    node = sink(band);
  } else if (inner_loops && vector) {
    node = sink(band.split(members - 1).child(0).as<isl::schedule_node_band>()).parent();
  }
  if (!vector) return node;
  return inner_loops || apart ? mark_leaves(node, "")
                              : mark_points(node.as<isl::schedule_node_band>(), "");
}

void describe_fusion(FusionStrategy fusion, Notes& notes) {
  if (fusion == FusionStrategy::Min)
    notes.push_back({"points", "each statement passes over a tile by itself, as the options say"});
  if (fusion == FusionStrategy::Max)
    notes.push_back({"points", "statements share the loops over a tile, as the options say"});
}

/// The tree of a cluster as rows, in blocks where that shares loads.
Mapped map_as_rows(const Cluster& cluster, std::vector<Member> members, const ir::Program& program,
                   const std::map<std::string, Layout>& layouts, const MappingOptions& options,
                   const CpuMachine& machine, bool parallel) {
  std::vector<int64_t> block(members.size(), 1);
  if (options.automatic)
    block = run_pass(
        kBlocksOfRows, [&] { return choose_row_block(cluster, program, layouts, machine); },
        [](const auto& rows) {
          return std::any_of(rows.begin(), rows.end(), [](int64_t size) { return size > 1; });
        });
  // The rows of a block last; the longer member outside, so that the operand that belongs to the
  // shorter one is what the cache has to keep.
  std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    bool block_a = block[a.position] > 1, block_b = block[b.position] > 1;
    return block_a != block_b ? block_b : block_a && a.extent > b.extent;
  });
  std::vector<int64_t> blocks;
  for (const Member& member : members) blocks.push_back(block[member.position]);
  std::vector<int64_t> sizes = row_tile_sizes(cluster, members, blocks, options, machine);
  const FusionStrategy fusion = fusion_in_tiles(cluster, options);
  Mapped mapped = map_rows(cluster, members, sizes, blocks, program, layouts, machine, parallel,
                           fusion == FusionStrategy::Min);
  describe_fusion(fusion, mapped.notes);
  if (cluster.shared > 0)
    mapped.notes.push_back(describe_tasks(cluster, members, sizes, parallel,
                                          describe_sizes(options, row_task(blocks, machine))));
  return mapped;
}

/// Tile sizes in the order of the members, whose last is the vector if there is one.
std::vector<int64_t> tile_sizes(const std::vector<Member>& members, bool vector, bool inner_loops,
                                const MappingOptions& options, const CpuMachine& machine) {
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
      wanted = std::max<int64_t>(1, machine.least(kElementwiseTile) / elements);
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

/// Why a cluster that suits_register_tiles refuses has no block in registers.
Note refuse_register_tiles(const Cluster& cluster) {
  for (const ScopStatement* statement : cluster.statements)
    if (statement->source->subscripts.size() != cluster.shared)
      return {
          "no block",
          concat("the group shares ", plural(cluster.shared, "loop"), ", but ",
                 statement->source->tensor, " in ", statement->source->name, " has ",
                 plural(static_cast<int64_t>(statement->source->subscripts.size()), "dimension"))};
  return {"no block", "no loop that the group shares makes a vector"};
}

/// One of the ways to map a cluster, taken.
template <class Map>
Mapped take(const Pass& way, Map map) {
  return run_pass(way, map, [](const Mapped&) { return true; });
}

/// Notes about the choice, those of the mapping, and its copies.
Mapped explained(Notes notes, Mapped mapped, double cycles, const Scop& scop,
                 const std::map<std::string, Layout>& layouts) {
  notes.insert(notes.end(), mapped.notes.begin(), mapped.notes.end());
  Notes copies = describe_copies(mapped.promotions, scop, layouts);
  notes.insert(notes.end(), copies.begin(), copies.end());
  // Several statements may make the same read.
  auto same = [](const Note& a, const Note& b) { return a.label == b.label && a.text == b.text; };
  notes.erase(std::unique(notes.begin(), notes.end(), same), notes.end());
  mapped.notes = std::move(notes);
  mapped.cycles = cycles;
  return mapped;
}

}  // namespace

Mapped map_cpu(const Cluster& cluster, const Scop& scop,
               const std::map<std::string, Layout>& layouts, const MappingOptions& options,
               const CpuMachine& machine) {
  const ir::Program& program = *scop.program;
  std::vector<Member> members = analyze_members(cluster, program, layouts,
                                                count_lanes(cluster, program, machine.step_bits()));
  int64_t accessed = count_accesses(cluster, program);
  // Outer loops of a chain are enough tasks.
  bool parallel = options.parallel && cluster.outer.empty() && accessed >= machine.least(kGrain);
  bool inner_loops = has_inner_loops(cluster);
  bool vector = options.vectorize && move_vector_last(members);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double rows = options.vectorize ? row_cost(cluster, program, layouts, machine) : kNone;
  double row_cycles = rows * kCyclesPerOperation, block_cycles = kNone;
  auto finish = [&](Notes notes, Mapped mapped, double cycles) {
    if (!options.parallel)
      notes.push_back({"threads", "one, as the options say"});
    else if (!parallel && cluster.outer.empty())
      notes.push_back({"threads", concat("one: ", accessed, " accesses are fewer than ",
                                         machine.least(kGrain))});
    return explained(std::move(notes), std::move(mapped), cycles, scop, layouts);
  };
  if (is_scatter(cluster)) {
    Mapped mapped = take(
        kScatter, [&] { return map_scatter(cluster, scop, layouts, options, machine, parallel); });
    Notes notes;
    std::swap(notes, mapped.notes);
    double cycles = mapped.cycles;
    return finish(notes, std::move(mapped), cycles);
  }
  if (options.automatic && vector && inner_loops && suits_register_tiles(cluster)) {
    RegisterBlock block = choose_block(cluster, members, program, layouts, machine);
    block_cycles = block.cycles;
    if (block_cycles <= row_cycles) {
      Notes notes = describe_block(cluster, block, row_cycles, machine);
      Mapped mapped = take(kRegisterTiles, [&] {
        return map_register_tiles(cluster, block, scop, parallel, machine);
      });
      notes.push_back(describe_operands(cluster, block, mapped.promotions, scop, layouts));
      // The model counted on every copy.
      bool modelled = mapped.promotions.size() == block.packed.size();
      return finish(notes, std::move(mapped), modelled ? block_cycles : 0);
    }
  }
  std::vector<std::pair<double, std::string>> choices =
      vector_choices(cluster, members, kCyclesPerOperation);
  Notes refused;
  if (block_cycles < kNone)
    choices.emplace_back(block_cycles, "as a block of results in registers");
  else if (inner_loops && options.automatic && options.vectorize && cluster.shared > 0)
    refused.push_back(refuse_register_tiles(cluster));
  if (prefers_rows(rows, members)) {
    std::string shared;
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.position < b.position; });
    for (const Member& member : members)
      shared += (shared.empty() ? " below " : ", ") + name_of(cluster, member);
    choices.insert(choices.begin(), {row_cycles, "this form"});
    Notes notes = {{"form", "rows: every statement has vectors along loops of its own" + shared},
                   describe_cycles(choices)};
    notes.insert(notes.end(), refused.begin(), refused.end());
    return finish(notes,
                  take(kRows,
                       [&] {
                         return map_as_rows(cluster, members, program, layouts, options, machine,
                                            parallel);
                       }),
                  row_cycles);
  }
  if (cluster.shared == 0)
    return take(kScalarLoops, [&]() -> Mapped {
      return {cluster.schedule, {}, {{"form", "scalar loops: nothing here makes a vector"}}};
    });
  if (rows < kNone) choices.emplace_back(row_cycles, "as rows");
  if (options.automatic && vector && !inner_loops)
    if (auto mapped = run_pass(
            kTransposed, [&] { return map_transposed(cluster, members, scop, layouts, parallel); }))
      return finish({}, *mapped, 0);
  const PassTimer timer;
  std::vector<int64_t> sizes = tile_sizes(members, vector, inner_loops, options, machine);

  isl::schedule_node below = insert_outer_loops(cluster.schedule.root().child(0), cluster);
  isl::schedule_node_band band = reorder(below.as<isl::schedule_node_band>(), positions(members));
  isl::schedule_node node = band;
  if (count_tiles(members, sizes) > 1) {
    isl::schedule_node_band tiled = tile(band, sizes);
    node = parallel ? insert_mark(tiled, "parallel").child(0).child(0) : tiled.child(0);
  }
  const FusionStrategy fusion = fusion_in_tiles(cluster, options);
  node = place_points(node, inner_loops, vector, fusion);
  int64_t task =
      inner_loops ? kReductionTileVector * kReductionTileOther : machine.least(kElementwiseTile);
  std::string what = inner_loops ? "tiles of results in memory" : "element by element";
  Notes notes = {
      {"form", what + (vector ? ", vectors along " + name_of(cluster, members.back())
                              : std::string(options.vectorize ? ", scalar"
                                                              : ", scalar as the options say"))}};
  if (vector) {
    choices[0].second = "this form, vectors along " + name_of(cluster, members.back());
    notes.push_back(describe_cycles(choices));
  }
  notes.insert(notes.end(), refused.begin(), refused.end());
  describe_fusion(fusion, notes);
  if (records_passes())
    record_pass(inner_loops ? kTilesInMemory : kElements, true, timer.milliseconds());
  return finish(
      notes,
      {node.root().schedule(),
       {},
       {describe_tasks(cluster, members, sizes, parallel, describe_sizes(options, task))}},
      vector ? members.back().cost * kCyclesPerOperation : 0);
}

}  // namespace tc::poly
