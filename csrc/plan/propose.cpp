#include "plan/propose.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/numbers.h"
#include "base/passes.h"
#include "plan/forms/instruction_tiles.h"
#include "plan/forms/register_tiles.h"
#include "plan/forms/rows.h"
#include "plan/forms/scatters.h"
#include "plan/forms/transposed.h"
#include "plan/members.h"
#include "plan/notes.h"
#include "plan/options/constraints.h"

namespace tc::plan {
namespace {

const Pass kScatter("mapping", "scatter");
const Pass kInstructionTiles("mapping", "instruction_tiles");
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

std::string describe_aim(int64_t elements) {
  return concat("aiming at ", elements, " elements each");
}

/// How the statements of a cluster share the loops over the points of a tile that the options give:
/// as a form does by itself, or as they say.
FusionStrategy fusion_in_tiles(const Cluster& cluster, const MappingOptions& options) {
  const bool tiled = !options.tile.empty() && cluster.shared > 0;
  return tiled && cluster.statements.size() > 1 ? options.intra_tile_fusion
                                                : FusionStrategy::Preserve3Coincident;
}

bool has_blocks(const std::vector<int64_t>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; });
}

void describe_fusion(FusionStrategy fusion, Notes& notes) {
  if (fusion == FusionStrategy::Min)
    notes.push_back({"points", "each statement passes over a tile by itself, as the options say"});
  if (fusion == FusionStrategy::Max)
    notes.push_back({"points", "statements share the loops over a tile, as the options say"});
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

/// Notes about the choice, those of the Plan, and its copies.
void explain(Proposal& proposal, Notes notes, const Scop& scop, const Layouts& layouts) {
  poly::Mapped& mapped = proposal.mapped;
  notes.insert(notes.end(), mapped.notes.begin(), mapped.notes.end());
  Notes copies = describe_copies(mapped.promotions, scop, layouts);
  notes.insert(notes.end(), copies.begin(), copies.end());
  // Several statements may make the same read.
  auto same = [](const Note& a, const Note& b) { return a.label == b.label && a.text == b.text; };
  notes.erase(std::unique(notes.begin(), notes.end(), same), notes.end());
  mapped.notes = std::move(notes);
}

/// Plans one cluster.
class Planner {
 public:
  Planner(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
          const MappingOptions& options, const CpuMachine& machine)
      : cluster_(cluster),
        scop_(scop),
        program_(*scop.program),
        layouts_(layouts),
        machine_(machine),
        constraints_(constraints_of(cluster, options)),
        fusion_(fusion_in_tiles(cluster, options)),
        members_(analyze_members(cluster, program_, layouts,
                                 count_lanes(cluster, program_, machine.step_bits()))),
        accessed_(count_accesses(cluster, program_)),
        // Outer loops of a chain are enough tasks.
        parallel_(constraints_.parallel && cluster.outer.empty() &&
                  (constraints_.cluster.parallel || accessed_ >= machine.least(kGrain))),
        inner_loops_(has_inner_loops(cluster)),
        vector_(place_vector()),
        rows_(constraints_.allows_own_vectors() ? row_cost(cluster, program_, layouts, machine)
                                                : kNone) {}

  Proposal propose() {
    if (auto plan = complete_plan(constraints_.cluster))
      return finish(*plan, {{"form", "as the options say"}}, {});
    if (is_scatter(cluster_)) return propose_scatter();
    std::optional<Instructed> instructed = plan_instructions();
    if (instructed && constraints_.cluster.instruction) return finish(*instructed, {});
    Proposal proposal = propose_form();
    if (!instructed) return proposal;
    const double others = estimate(proposal.plan, cluster_, program_, layouts_, machine_).total();
    if (instructed->cycles >= others) return proposal;
    return finish(*instructed, {{others, "without the instruction"}});
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  /// Register tiles with an instruction.
  struct Instructed {
    ClusterPlan plan;
    Notes notes;
    double cycles = 0;
  };

  std::optional<Instructed> plan_instructions() const {
    const auto& given = constraints_.cluster.instruction;
    if (!vector_ || !inner_loops_ || !constraints_.allows_register_tiles() ||
        !suits_register_tiles(cluster_) || (given && given->empty()))
      return std::nullopt;
    Instructed made;
    const auto plan = run_pass(
        kInstructionTiles,
        [&] {
          return plan_instruction_tiles(cluster_, members_, program_, layouts_, constraints_,
                                        parallel_, machine_, made.notes);
        },
        [](const auto& plan) { return plan.has_value(); });
    if (!plan) return std::nullopt;
    made.plan = *plan;
    made.cycles = estimate(made.plan, cluster_, program_, layouts_, machine_).total();
    return made;
  }

  Proposal finish(const Instructed& made,
                  std::vector<std::pair<double, std::string>> others) const {
    others.insert(others.begin(), {made.cycles, "this form"});
    const auto tile = made.notes.begin() + 1;
    return finish(made.plan, {made.notes.front(), describe_cycles(others)},
                  {tile, made.notes.end()});
  }

  Proposal propose_form() {
    if (vector_ && inner_loops_ && constraints_.allows_register_tiles() &&
        suits_register_tiles(cluster_)) {
      const RegisterBlock block = choose_block(cluster_, members_, program_, layouts_, machine_,
                                               {constraints_.tasks, constraints_.last});
      block_cycles_ = block.cycles;
      if (block_cycles_ <= row_cycles()) return propose_register_tiles(block);
    }
    if (prefers_rows()) return propose_rows();
    if (cluster_.shared == 0) return propose_scalar_loops();
    if (vector_ && !inner_loops_ && fusion_ != FusionStrategy::Min) {
      Notes notes;
      auto plan = run_pass(kTransposed, [&] {
        return plan_transposed(cluster_, members_, scop_, layouts_, constraints_, parallel_, notes);
      });
      if (plan) return finish(*plan, {}, notes);
    }
    return propose_tiles();
  }

  /// Moves the loop that becomes a vector last, if one may; without a vector, the loops are in the
  /// same order. Returns whether there is one.
  bool place_vector() {
    const bool found = move_vector_last(members_);
    if (constraints_.last >= 0) {
      auto given = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
        return member.position == constraints_.last;
      });
      std::rotate(given, given + 1, members_.end());
      return constraints_.allows_shared_vector() && members_.back().extent > 1;
    }
    return constraints_.allows_shared_vector() && found;
  }

  /// Elements for a task of rows in these blocks.
  int64_t row_task(const std::vector<int64_t>& blocks) const {
    return machine_.least(has_blocks(blocks) ? kBlockedTile : kElementwiseTile);
  }

  /// Tile sizes for rows in blocks, in the order of the members: tasks of about the same work.
  std::vector<int64_t> row_tile_sizes(const std::vector<Member>& members,
                                      const std::vector<int64_t>& blocks) const {
    int64_t rows = 1, elements = 0;
    for (const Member& member : members) rows *= member.extent;
    for (const ScopStatement* statement : cluster_.statements) elements += instances(*statement);
    elements = std::max<int64_t>(1, elements / std::max<int64_t>(1, rows));
    int64_t task = row_task(blocks);
    std::vector<int64_t> sizes(members.size());
    for (size_t k = members.size(); k-- > 0;) {
      const int64_t wanted = std::max<int64_t>(1, task / elements);
      sizes[k] = constraints_.task(members[k], round_up(wanted, blocks[k]));
      elements *= sizes[k];
    }
    return sizes;
  }

  /// A cluster as rows, in blocks where that shares loads.
  ClusterPlan plan_as_rows(std::vector<Member> members, Notes& notes) const {
    std::vector<int64_t> block = run_pass(
        kBlocksOfRows, [&] { return choose_row_block(cluster_, program_, layouts_, machine_); },
        has_blocks);
    for (const Member& member : members) {
      // A task has whole blocks.
      const int64_t task = constraints_.task(member, std::max<int64_t>(1, member.extent));
      while (task < member.extent && task % block[member.position] != 0) --block[member.position];
    }
    // Nests that pass over a tile one by one have no block in common.
    if (fusion_ == FusionStrategy::Min) std::fill(block.begin(), block.end(), 1);
    // The rows of a block last; the longer member outside, so that the operand that belongs to the
    // shorter one is what the cache has to keep.
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      bool block_a = block[a.position] > 1, block_b = block[b.position] > 1;
      return block_a != block_b ? block_b : block_a && a.extent > b.extent;
    });
    std::vector<int64_t> blocks;
    for (const Member& member : members) blocks.push_back(block[member.position]);
    std::vector<int64_t> sizes = row_tile_sizes(members, blocks);
    ClusterPlan plan = plan_rows(cluster_, members, sizes, blocks, program_, layouts_, machine_,
                                 parallel_, fusion_ == FusionStrategy::Min, notes);
    describe_fusion(fusion_, notes);
    if (cluster_.shared > 0)
      notes.push_back(describe_tasks(cluster_, members, sizes, constraints_, parallel_,
                                     describe_aim(row_task(blocks))));
    return plan;
  }

  /// Tile sizes in the order of the members, whose last is the vector if there is one.
  std::vector<int64_t> tile_sizes() const {
    std::vector<int64_t> sizes(members_.size());
    int64_t elements = 1;
    for (size_t k = members_.size(); k-- > 0;) {
      const Member& member = members_[k];
      size_t from_last = members_.size() - 1 - k;
      int64_t wanted = 1;
      if (!inner_loops_) {
        wanted = std::max<int64_t>(1, machine_.least(kElementwiseTile) / elements);
      } else if (from_last == 0 && vector_) {
        wanted = kReductionTileVector;
      } else if (from_last < 2) {
        wanted = kReductionTileOther;
      }
      sizes[k] = constraints_.task(member, wanted);
      elements *= sizes[k];
    }
    return sizes;
  }

  /// Where the points of tiles in memory or of elements go.
  Points place_points() const {
    const bool inside = inner_loops_
                            ? fusion_ != FusionStrategy::Max || (vector_ && members_.size() == 1)
                            : fusion_ == FusionStrategy::Min;
    if (inside) return Points::Inside;
    return inner_loops_ && vector_ ? Points::VectorInside : Points::Around;
  }

  /// Whether the statements' own loops make better vectors than any member of the shared band.
  bool prefers_rows() const {
    if (members_.empty()) return rows_ < kNone;
    return std::all_of(members_.begin(), members_.end(),
                       [&](const Member& member) { return rows_ < member.cost; });
  }

  double row_cycles() const { return rows_ * kCyclesPerOperation; }

  /// One of the ways to plan a cluster, taken.
  template <class Make>
  static ClusterPlan take(const Pass& way, Make make) {
    return run_pass(way, make, [](const ClusterPlan&) { return true; });
  }

  /// `notes` tell of the choice, `of_plan` of what was chosen.
  Proposal finish(ClusterPlan plan, Notes notes, const Notes& of_plan) const {
    Proposal proposal = apply_proposal(std::move(plan), cluster_, scop_, constraints_);
    Notes& own = proposal.mapped.notes;
    own.insert(own.begin(), of_plan.begin(), of_plan.end());
    if (!constraints_.parallel)
      notes.push_back({"threads", "one, as the options say"});
    else if (!parallel_ && cluster_.outer.empty())
      notes.push_back({"threads", concat("one: ", accessed_, " accesses are fewer than ",
                                         machine_.least(kGrain))});
    explain(proposal, std::move(notes), scop_, layouts_);
    return proposal;
  }

  Proposal propose_scatter() const {
    Notes notes;
    const ClusterPlan plan = take(kScatter, [&] {
      return plan_scatter(cluster_, scop_, layouts_, constraints_, machine_, parallel_, notes);
    });
    return finish(plan, notes, {});
  }

  Proposal propose_register_tiles(const RegisterBlock& block) const {
    Notes tasks;
    ClusterPlan plan = take(kRegisterTiles, [&] {
      return plan_register_tiles(cluster_, block, program_, constraints_, parallel_, machine_,
                                 tasks);
    });
    if (fusion_ == FusionStrategy::Min) plan.points = Points::Apart;
    describe_fusion(fusion_, tasks);
    Notes notes = describe_block(cluster_, block, row_cycles(), machine_);
    Proposal proposal = finish(plan, {}, tasks);
    notes.push_back(
        describe_operands(cluster_, block, proposal.mapped.promotions, scop_, layouts_));
    Notes& own = proposal.mapped.notes;
    own.insert(own.begin(), notes.begin(), notes.end());
    return proposal;
  }

  /// Adds why there are no register tiles, where somebody might expect them.
  void refuse(Notes& notes) const {
    if (block_cycles_ == kNone && inner_loops_ && constraints_.allows_register_tiles() &&
        cluster_.shared > 0)
      notes.push_back(refuse_register_tiles(cluster_));
  }

  std::vector<std::pair<double, std::string>> choices() const {
    auto all = vector_choices(cluster_, members_);
    if (block_cycles_ < kNone)
      all.emplace_back(block_cycles_, "as a block of results in registers");
    return all;
  }

  Proposal propose_rows() const {
    auto all = choices();
    std::vector<Member> members = members_;
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.position < b.position; });
    const std::string shared = members.empty() ? "" : " below " + join(shared_names(cluster_));
    all.insert(all.begin(), {row_cycles(), "this form"});
    Notes notes = {{"form", "rows: every statement has vectors along loops of its own" + shared},
                   describe_cycles(all)};
    refuse(notes);
    Notes own;
    const ClusterPlan plan = take(kRows, [&] { return plan_as_rows(members, own); });
    return finish(plan, notes, own);
  }

  Proposal propose_scalar_loops() const {
    const ClusterPlan plan = take(kScalarLoops, [&] { return begin_plan(cluster_, {}); });
    Proposal proposal = apply_proposal(plan, cluster_, scop_, constraints_);
    proposal.mapped.notes = {{"form", "scalar loops: nothing here makes a vector"}};
    return proposal;
  }

  /// Tiles of elements, or of results that reductions keep in memory.
  Proposal propose_tiles() const {
    auto all = choices();
    if (rows_ < kNone) all.emplace_back(row_cycles(), "as rows");
    const std::vector<int64_t> sizes = tile_sizes();
    const ClusterPlan plan = take(inner_loops_ ? kTilesInMemory : kElements, [&] {
      ClusterPlan made = begin_plan(cluster_, members_);
      made.tasks = make_tiles(cluster_, members_, sizes);
      made.run_tasks = parallel_ ? Tasks::Parallel : Tasks::Serial;
      made.points = place_points();
      made.vector = vector_;
      return made;
    });
    const std::string last = name_of(cluster_, members_.back());
    const std::string what = inner_loops_ ? "tiles of results in memory" : "element by element";
    Notes notes = {{"form", what + (vector_                  ? ", vectors along " + last
                                    : constraints_.vectorize ? ", scalar"
                                                             : ", scalar as the options say")}};
    if (vector_) {
      all[0].second = "this form, vectors along " + last;
      notes.push_back(describe_cycles(all));
    }
    refuse(notes);
    describe_fusion(fusion_, notes);
    const int64_t task = inner_loops_ ? kReductionTileVector * kReductionTileOther
                                      : machine_.least(kElementwiseTile);
    return finish(
        plan, notes,
        {describe_tasks(cluster_, members_, sizes, constraints_, parallel_, describe_aim(task))});
  }

  const Cluster& cluster_;
  const Scop& scop_;
  const ir::Program& program_;
  const Layouts& layouts_;
  const CpuMachine& machine_;
  const Constraints constraints_;
  const FusionStrategy fusion_;  ///< of the loops over a tile
  std::vector<Member> members_;  ///< the vector last
  const int64_t accessed_;
  const bool parallel_, inner_loops_, vector_;
  const double rows_;            ///< memory operations as rows
  double block_cycles_ = kNone;  ///< with register tiles, where these were considered
};

}  // namespace

Proposal propose_cpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, const CpuMachine& machine) {
  return Planner(cluster, scop, layouts, options, machine).propose();
}

}  // namespace tc::plan
