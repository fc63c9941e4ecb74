#include "plan/propose.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/numbers.h"
#include "base/passes.h"
#include "machine/limits.h"
#include "plan/forms/element_blocks.h"
#include "plan/forms/instruction_tiles.h"
#include "plan/forms/register_tiles.h"
#include "plan/forms/rows.h"
#include "plan/forms/scatters.h"
#include "plan/forms/transposed.h"
#include "plan/members.h"
#include "plan/notes.h"
#include "plan/options/constraints.h"
#include "plan/refine_tasks.h"
#include "plan/resolve.h"

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
const Pass kRefineTasks("mapping", "refine_tasks");

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

// By how much another block must be cheaper than the one that the model of blocks finds best
// (measured with a Zen 4, 240 random contractions: by 1.08, 47 have another block, which is 1.05
// times faster in the geometric mean, 0.6 to 1.6; without a bound 143 have, and it is 1.016. A
// convolution of 512 channels for which it is 1.09 was 1.2 times slower).
constexpr double kOtherBlock = 1.1;

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

/// Plans one cluster.
class Planner {
 public:
  Planner(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
          const MappingOptions& options, const CpuMachine& machine, Forms forms)
      : in_{cluster, *scop.program, layouts, machine},
        cluster_(cluster),
        scop_(scop),
        machine_(machine),
        constraints_(constraints_of(cluster, options)),
        // Copies compute something for blocks alone.
        blocks_(forms == Forms::Blocks || computes_in_copies(constraints_.cluster)),
        fusion_(fusion_in_tiles(cluster, options)),
        members_(analyze_members(cluster, in_.program, layouts,
                                 count_lanes(cluster, in_.program, machine.step_bits()))),
        accessed_(count_accesses(cluster, in_.program)),
        // Outer loops of a chain are enough tasks.
        parallel_(constraints_.parallel && cluster.outer.empty() &&
                  (constraints_.cluster.parallel || accessed_ >= machine.least(kGrain))),
        inner_loops_(has_inner_loops(cluster)),
        vector_(place_vector()),
        rows_(constraints_.allows_own_vectors() && has_own_vectors(in_)) {}

  Proposal propose() {
    if (auto plan = complete_plan(constraints_.cluster))
      return finish(apply(*plan), {{"form", "as the options say"}}, {});
    if (is_scatter(cluster_)) return propose_scatter();
    std::vector<Form> forms = list_forms();
    if (forms.empty()) return propose_scalar_loops();
    for (Form& form : forms) form.cycles = estimate(form.plan, in_).total();
    std::stable_sort(forms.begin(), forms.end(), is_cheaper);
    if (auto refined = refine(forms.front())) forms.insert(forms.begin(), std::move(*refined));
    return take(std::move(forms));
  }

 private:
  /// A way to run the cluster.
  struct Form {
    const Pass* way;
    std::string name;  ///< "as rows"
    ClusterPlan plan = {};
    Notes choice = {};        ///< what it is, and what it was chosen from
    Notes own = {};           ///< of its tiles
    std::string vector = {};  ///< the shared loop that becomes one
    std::optional<RegisterBlock> block = {};
    double cycles = 0;  ///< by the estimate
  };

  static bool is_cheaper(const Form& a, const Form& b) { return a.cycles < b.cycles; }

  /// Those that suit the cluster, among equals the best first; none where nothing makes a vector.
  std::vector<Form> list_forms() const {
    std::vector<Form> forms;
    const auto add = [&](std::optional<Form> form) {
      if (form) forms.push_back(std::move(*form));
    };
    if (suits_blocks()) {
      add(as_instruction_tiles());
      if (constraints_.cluster.instruction && !forms.empty()) return forms;
      add(as_register_tiles());
      if ((blocks_ || gives_registers()) && !forms.empty()) return forms;
    }
    if (rows_) {
      add(as_rows(fusion_ == FusionStrategy::Min));
      add(with_copies(forms.back()));
    }
    const bool open = fusion_ == FusionStrategy::Preserve3Coincident &&
                      !constraints_.cluster.points && !computes_one(cluster_);
    if (rows_ && open)
      if (Form form = as_rows(true);
          form.plan.points == Points::Apart && has_equal_tasks(form.plan)) {
        std::optional<Form> copied = with_copies(form);
        add(std::move(form));
        if (copied && has_equal_tasks(copied->plan)) add(std::move(copied));
      }
    if (vector_ && !inner_loops_ && fusion_ != FusionStrategy::Min) add(as_squares());
    // Lanes of a vector that costs infinitely much would meet in one place.
    const bool may_be_vector = !vector_ || !std::isinf(members_.back().cost);
    if (cluster_.shared > 0 && (may_be_vector || forms.empty())) {
      add(as_tiles(vector_));
      add(as_element_blocks(forms.back()));
      if (vector_ && !constraints_.cluster.vector && gathers()) add(as_tiles(false));
      for (Form& form : as_other_vectors()) forms.push_back(std::move(form));
      for (Form& form : as_interleaved_rows()) forms.push_back(std::move(form));
    }
    return forms;
  }

  /// A form with other tasks, where those are much cheaper; the one without is told apart.
  std::optional<Form> refine(Form& form) const {
    auto plan = run_pass(kRefineTasks, [&] { return refine_tasks(form.plan, in_, constraints_); });
    if (!plan) return std::nullopt;
    Form refined = form;
    refined.plan = std::move(*plan);
    refined.cycles = estimate(refined.plan, in_).total();
    refined.own.erase(std::remove_if(refined.own.begin(), refined.own.end(),
                                     [](const Note& note) {
                                       return note.label == "tasks" || note.label == "tiles";
                                     }),
                      refined.own.end());
    refined.own.push_back(
        describe_tasks(refined.plan, cluster_, constraints_, "the cheapest by the estimate"));
    form.name = "the same with tasks by rules";
    return refined;
  }

  bool suits_blocks() const {
    return vector_ && inner_loops_ && constraints_.allows_register_tiles() &&
           suits_register_tiles(cluster_);
  }

  /// The first one, unless it loses copies that cannot be made, and with them to the next.
  Proposal take(std::vector<Form> forms) const {
    std::optional<Proposal> best;
    size_t taken = 0;
    for (size_t k = 0; k < forms.size(); ++k) {
      if (best && forms[taken].cycles <= forms[k].cycles) break;
      Proposal made = apply(forms[k].plan);
      forms[k].cycles = estimate(made.plan, in_).total();
      if (best && forms[taken].cycles <= forms[k].cycles) continue;
      best = std::move(made);
      taken = k;
    }
    std::rotate(forms.begin(), forms.begin() + static_cast<long>(taken),
                forms.begin() + static_cast<long>(taken) + 1);
    std::stable_sort(forms.begin() + 1, forms.end(), is_cheaper);
    // Its time is not known apart from that of the others.
    if (records_passes()) record_pass(*forms[0].way, true, 0);
    Notes notes = describe_choice(forms, *best);
    return finish(std::move(*best), std::move(notes), forms[0].own);
  }

  Notes describe_choice(const std::vector<Form>& forms, const Proposal& proposal) const {
    const Form& form = forms.front();
    Notes notes = form.choice;
    if (form.block && gives_registers())
      notes.front() = {"form",
                       concat("a block of results in registers: ",
                              describe_sides(proposal.plan.registers), ", as the options say")};
    std::vector<std::pair<double, std::string>> cycles;
    for (const Form& each : forms)
      cycles.emplace_back(each.cycles, &each == &form ? "this form" : each.name);
    if (!form.vector.empty()) cycles.front().second += ", vectors along " + form.vector;
    notes.insert(notes.begin() + 1, describe_cycles(cycles));
    const bool has_block = std::any_of(forms.begin(), forms.end(), [](const Form& each) {
      return each.way == &kRegisterTiles || each.way == &kInstructionTiles;
    });
    if (!has_block && inner_loops_ && constraints_.allows_register_tiles() && cluster_.shared > 0)
      notes.push_back(refuse_register_tiles(cluster_));
    if (form.block)
      notes.push_back(describe_operands(in_, *form.block, proposal.mapped.promotions));
    return notes;
  }

  std::optional<Form> as_instruction_tiles() const {
    const auto& given = constraints_.cluster.instruction;
    if (given && given->empty()) return std::nullopt;
    Form form{&kInstructionTiles, "with an instruction"};
    auto plan = plan_instruction_tiles(in_, members_, constraints_, parallel_, form.own);
    if (!plan) return std::nullopt;
    form.plan = std::move(*plan);
    form.choice = {form.own.front()};
    form.own.erase(form.own.begin());
    return form;
  }

  std::optional<Form> as_register_tiles() const {
    Form form = gives_registers() ? choose_vector() : choose_block();
    if (!form.block) return std::nullopt;
    describe_fusion(fusion_, form.own);
    form.choice = describe_block(cluster_, *form.block, machine_);
    form.vector = name_of(cluster_, form.block->members.back());
    return form;
  }

  /// Whether options give the sides of a block.
  bool gives_registers() const {
    return constraints_.cluster.registers && !constraints_.cluster.registers->empty();
  }

  static Form without_block() { return {&kRegisterTiles, "as a block of results in registers"}; }

  /// Of blocks with given sides, the cheapest by the estimate that the options leave possible.
  Form choose_vector() const {
    Form chosen = without_block();
    std::optional<Reason> refused;
    for (const Member& vector : members_) {
      if (constraints_.last >= 0 && constraints_.last != vector.position) continue;
      std::vector<RegisterBlock> blocks =
          choose_blocks(in_, members_, {constraints_.tasks, vector.position});
      if (blocks.empty()) continue;
      Form form = with_block(std::move(blocks.front()));
      ClusterPlan plan = form.plan;
      constrain(plan, constraints_);
      // The estimate takes for granted that names and numbers are those of the cluster.
      if (const auto resolved = resolve(plan, cluster_, scop_); !resolved) {
        refused = Reason{resolved.reason()};
        continue;
      }
      form.cycles = estimate(plan, in_).total();
      if (!chosen.block || form.cycles < chosen.cycles) chosen = std::move(form);
    }
    if (!chosen.block && refused) throw CompilationError(refused->text);
    return chosen;
  }

  Form with_block(RegisterBlock block) const {
    Form form = without_block();
    form.plan = plan_register_tiles(in_, block, constraints_, parallel_, form.own);
    if (fusion_ == FusionStrategy::Min) form.plan.points = Points::Apart;
    form.block = std::move(block);
    return form;
  }

  /// The block that the model of blocks finds best, or one that it finds nearly as good, where the
  /// product of its cycles and of the estimate's is lower by kOtherBlock. Without a block: none.
  Form choose_block() const {
    const auto cycles = [](const Form& form) { return form.cycles * form.block->cycles; };
    Form chosen = without_block(), other = chosen;
    for (RegisterBlock& block :
         choose_blocks(in_, members_, {constraints_.tasks, constraints_.last})) {
      Form form = with_block(std::move(block));
      form.cycles = estimate(form.plan, in_).total();
      if (!chosen.block)
        chosen = std::move(form);
      else if (!other.block || cycles(form) < cycles(other))
        other = std::move(form);
    }
    if (!other.block || cycles(other) * kOtherBlock >= cycles(chosen)) return chosen;
    // Each may have tasks that suit it better.
    Form refined = other;
    for (Form* form : {&chosen, &refined})
      if (auto plan = refine_tasks(form->plan, in_, constraints_))
        form->cycles = estimate(*plan, in_).total();
    return cycles(refined) * kOtherBlock < cycles(chosen) ? other : chosen;
  }

  /// Whether no task is smaller than others.
  bool has_equal_tasks(const ClusterPlan& plan) const {
    return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
      const Tile* tile = find_tile(plan.tasks, name_of(cluster_, member));
      return !tile || member.extent % tile->size == 0;
    });
  }

  /// Every statement is vectorised along a loop of its own, in blocks of rows where that shares
  /// loads or waiting times.
  Form as_rows(bool apart) const {
    // Nests that pass over a tile one by one have no block in common.
    RowBlock chosen{std::vector<int64_t>(cluster_.shared, 1)};
    if (!apart)
      chosen = run_pass(
          kBlocksOfRows, [&] { return choose_row_block(in_); },
          [](const RowBlock& made) { return has_blocks(made.sizes); });
    std::vector<int64_t>& block = chosen.sizes;
    for (const Member& member : members_) {
      // A task has whole blocks.
      const int64_t task = constraints_.task(member, std::max<int64_t>(1, member.extent));
      while (task < member.extent && task % block[member.position] != 0) --block[member.position];
    }
    // The rows of a block last; the longer member outside, so that the operand that belongs to the
    // shorter one is what the cache has to keep.
    std::vector<Member> members = members_;
    std::sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      const bool block_a = block[a.position] > 1, block_b = block[b.position] > 1;
      if (block_a != block_b) return block_b;
      return block_a && a.extent != b.extent ? a.extent > b.extent : a.position < b.position;
    });
    std::vector<int64_t> blocks;
    for (const Member& member : members) blocks.push_back(block[member.position]);
    const int64_t task =
        machine_.least(has_blocks(blocks) && chosen.shares_loads ? kBlockedTile : kElementwiseTile);
    std::vector<int64_t> sizes = row_tile_sizes(members, blocks, task);
    // Temporaries of a whole task are private where all tasks are alike.
    for (size_t k = 0; apart && k < members.size(); ++k) {
      int64_t even = std::max<int64_t>(1, sizes[k]);
      while (members[k].extent % even != 0) --even;
      if (!constraints_.sizes_task(members[k]) && 2 * even > sizes[k]) sizes[k] = even;
    }
    const std::string shared = members.empty() ? "" : " below " + join(shared_names(cluster_));
    Form form{&kRows, "as rows, vectors along the statements' own loops"};
    form.choice = {{"form", "rows: every statement has vectors along loops of its own" + shared}};
    form.plan = plan_rows(in_, members, sizes, blocks, parallel_, apart, form.own);
    if (form.plan.points == Points::Apart && fusion_ != FusionStrategy::Min) {
      form.name = "as rows, each nest over a task by itself";
      form.choice.front().text += "; each nest passes over a task by itself";
    }
    if (!form.plan.registers.empty())
      form.own.push_back(
          {"rows",
           describe_tiles(cluster_, form.plan.registers) +
               (chosen.shares_loads ? "; the rows of a block share loads"
                                    : "; the sums of a block's rows do not wait for each other")});
    describe_fusion(fusion_, form.own);
    if (cluster_.shared > 0)
      form.own.push_back(describe_tasks(form.plan, cluster_, constraints_, describe_aim(task)));
    return form;
  }

  /// Rows of copies of what they read across, beside those without.
  std::optional<Form> with_copies(const Form& rows) const {
    auto plan = copy_across(in_, constraints_, rows.plan);
    if (!plan) return std::nullopt;
    Form form = rows;
    form.plan = std::move(*plan);
    form.name += ", of copies";
    form.choice.front().text += ", of copies of what lies across";
    for (Note& note : form.own)
      if (note.label == "tasks")
        note = describe_tasks(form.plan, cluster_, constraints_, "whole cache lines of the copies");
    return form;
  }

  std::optional<Form> as_squares() const {
    Form form{&kTransposed, "as squares"};
    auto plan = plan_transposed(in_, members_, constraints_, parallel_, form.choice);
    if (!plan) return std::nullopt;
    form.plan = std::move(*plan);
    return form;
  }

  /// Whether data says which elements some read is of.
  bool reads_at_data() const {
    return std::any_of(cluster_.statements.begin(), cluster_.statements.end(),
                       [&](const ScopStatement* statement) {
                         const auto all = accesses(in_.program, *statement->source);
                         return std::any_of(all.begin(), all.end() - 1, [&](const auto& access) {
                           return is_gather(access, in_.program);
                         });
                       });
  }

  /// Whether data says where the lanes of a read lie along the shared vector. Some processors
  /// gather these more slowly than they load them one by one.
  bool gathers() const {
    if (inner_loops_) return false;
    for (size_t s = 0; s < cluster_.statements.size(); ++s) {
      const std::string& vector = iterator_along(cluster_, members_.back(), s).name;
      for (const ir::MemoryAccess& access : accesses(in_.program, *cluster_.statements[s]->source))
        if (!access.write && is_gather(access, in_.program) &&
            !stride_along(access, in_.layouts.at(access.tensor), vector))
          return true;
    }
    return false;
  }

  /// Tiles of elements, or of results that reductions keep in memory.
  Form as_tiles(bool vector) const {
    const std::vector<int64_t> sizes = tile_sizes();
    const std::string what = inner_loops_ ? "tiles of results in memory" : "element by element";
    Form form{inner_loops_ ? &kTilesInMemory : &kElements,
              concat(inner_loops_ ? "in " : "", what, vector_ && !vector ? ", scalar" : "")};
    form.plan = begin_plan(cluster_, members_, sizes, parallel_ ? Tasks::Parallel : Tasks::Serial);
    form.plan.points = place_points();
    form.plan.vector = vector;
    const std::string last = name_of(cluster_, members_.back());
    form.choice = {{"form", what + (vector                   ? ", vectors along " + last
                                    : constraints_.vectorize ? ", scalar"
                                                             : ", scalar as the options say")}};
    if (vector) {
      form.vector = last;
      form.choice.push_back(describe_vectors(cluster_, members_));
    }
    describe_fusion(fusion_, form.choice);
    const int64_t task = inner_loops_ ? kReductionTileVector * kReductionTileOther
                                      : machine_.least(kElementwiseTile);
    form.own = {describe_tasks(form.plan, cluster_, constraints_, describe_aim(task))};
    return form;
  }

  /// Elements with vectors along other loops than the one that needs the fewest memory operations,
  /// where the estimate knows more: along neighbours of results, if data says which elements are
  /// read, and along a long loop where that one has few lanes.
  std::vector<Form> as_other_vectors() const {
    std::vector<Form> forms;
    if (!vector_ || inner_loops_ || constraints_.last >= 0) return forms;
    const int64_t lanes = count_lanes(cluster_, in_.program, machine_.vector_bits);
    const bool at_data = reads_at_data(), few = 2 * members_.back().extent <= lanes;
    for (size_t m = 0; m + 1 < members_.size(); ++m) {
      const Member& member = members_[m];
      const bool suits = (at_data && are_neighbours(member)) || (few && member.extent >= lanes);
      if (!suits || member.extent == 1 || std::isinf(member.cost)) continue;
      Planner other(*this);
      const auto place = other.members_.begin() + static_cast<long>(m);
      std::rotate(place, place + 1, other.members_.end());
      forms.push_back(other.as_tiles(true));
      forms.back().name += ", vectors along " + forms.back().vector;
    }
    return forms;
  }

  /// Elements of rows too short for a vector, in blocks that have some of them whole.
  std::vector<Form> as_interleaved_rows() const {
    std::vector<Form> forms;
    if (!takes_blocks() || constraints_.last >= 0) return forms;
    for (size_t r = 0; r < members_.size(); ++r)
      for (size_t v = 0; v < members_.size(); ++v) {
        if (v == r || std::isinf(members_[v].cost) || !are_neighbours(members_[r]) ||
            !machine::is_interleaved(distance_of_results(in_, members_[v]), members_[r].extent))
          continue;
        Planner other(*this);
        std::vector<Member>& members = other.members_;
        members.clear();
        for (size_t m = 0; m < members_.size(); ++m)
          if (m != r && m != v) members.push_back(members_[m]);
        members.insert(members.end(), {members_[r], members_[v]});
        Form form = other.as_tiles(true);
        auto plan = plan_interleaved_rows(in_, members, form.plan);
        if (!plan) continue;
        form.name = "in blocks of short rows";
        form.plan = std::move(*plan);
        form.choice.front().text += ", in blocks of " + describe_sides(form.plan.registers) +
                                    ", whose vectors are interleaved as they are stored";
        form.own = {describe_tasks(form.plan, cluster_, constraints_,
                                   describe_aim(machine_.least(kElementwiseTile)))};
        forms.push_back(std::move(form));
      }
    return forms;
  }

  /// Whether all results of the cluster are neighbours in memory along a member.
  bool are_neighbours(const Member& member) const { return distance_of_results(in_, member) == 1; }

  /// Whether a form of elements may have blocks.
  bool takes_blocks() const {
    return vector_ && !inner_loops_ && members_.size() > 1 &&
           fusion_ == FusionStrategy::Preserve3Coincident && constraints_.allows_register_tiles() &&
           !constraints_.cluster.registers && !constraints_.cluster.points &&
           !constraints_.sizes_tasks();
  }

  /// Elements in blocks of rows that share loads, beside the form without blocks.
  std::optional<Form> as_element_blocks(const Form& elements) const {
    if (!takes_blocks()) return std::nullopt;
    auto plan = plan_element_blocks(in_, members_, elements.plan);
    if (!plan) return std::nullopt;
    Form form = elements;
    form.name = "in blocks of elements";
    form.plan = std::move(*plan);
    form.choice.front().text +=
        ", in blocks of " + describe_sides(form.plan.registers) + " that share what they load";
    form.own = {describe_tasks(form.plan, cluster_, constraints_,
                               describe_aim(machine_.least(kElementwiseTile)))};
    return form;
  }

  /// Moves the loop that becomes a vector last, if one may; without a vector, the loops are in the
  /// same order. Returns whether there is one.
  bool place_vector() {
    move_vector_last(members_);
    if (constraints_.last >= 0) {
      auto given = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
        return member.position == constraints_.last;
      });
      std::rotate(given, given + 1, members_.end());
    }
    return constraints_.allows_shared_vector() && !members_.empty() && members_.back().extent > 1;
  }

  /// Tile sizes for rows in blocks, in the order of the members: tasks of about so many elements.
  std::vector<int64_t> row_tile_sizes(const std::vector<Member>& members,
                                      const std::vector<int64_t>& blocks, int64_t task) const {
    int64_t rows = 1, elements = 0;
    for (const Member& member : members) rows *= member.extent;
    for (const ScopStatement* statement : cluster_.statements) elements += instances(*statement);
    elements = std::max<int64_t>(1, elements / std::max<int64_t>(1, rows));
    std::vector<int64_t> sizes(members.size());
    for (size_t k = members.size(); k-- > 0;) {
      const int64_t wanted = std::max<int64_t>(1, task / elements);
      sizes[k] = constraints_.task(members[k], round_up(wanted, blocks[k]));
      elements *= sizes[k];
    }
    return sizes;
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

  Proposal apply(const ClusterPlan& plan) const {
    return apply_proposal(plan, cluster_, scop_, constraints_);
  }

  /// `notes` tell of the choice, `of_plan` of what was chosen.
  Proposal finish(Proposal proposal, Notes notes, const Notes& of_plan) const {
    if (!constraints_.parallel)
      notes.push_back({"threads", "one, as the options say"});
    else if (!parallel_ && cluster_.outer.empty())
      notes.push_back({"threads", concat("one: ", accessed_, " accesses are fewer than ",
                                         machine_.least(kGrain))});
    poly::Mapped& mapped = proposal.mapped;
    for (const Notes& more : {of_plan, mapped.notes, describe_copies(in_, mapped.promotions)})
      notes.insert(notes.end(), more.begin(), more.end());
    // Several statements may make the same read.
    auto same = [](const Note& a, const Note& b) { return a.label == b.label && a.text == b.text; };
    notes.erase(std::unique(notes.begin(), notes.end(), same), notes.end());
    mapped.notes = std::move(notes);
    return proposal;
  }

  Proposal propose_scatter() const {
    Notes notes;
    const ClusterPlan plan = run_pass(
        kScatter, [&] { return plan_scatter(in_, constraints_, parallel_, notes); },
        [](const ClusterPlan&) { return true; });
    return finish(apply(plan), notes, {});
  }

  Proposal propose_scalar_loops() const {
    if (records_passes()) record_pass(kScalarLoops, true, 0);
    Proposal proposal = apply(begin_plan(cluster_, {}));
    proposal.mapped.notes = {{"form", "scalar loops: nothing here makes a vector"}};
    return proposal;
  }

  const ClusterContext in_;
  const Cluster& cluster_;
  const Scop& scop_;
  const CpuMachine& machine_;
  const Constraints constraints_;
  const bool blocks_;            ///< whether no other form is wanted where there are such
  const FusionStrategy fusion_;  ///< of the loops over a tile
  std::vector<Member> members_;  ///< the vector last
  const int64_t accessed_;
  const bool parallel_, inner_loops_, vector_, rows_;
};

}  // namespace

Proposal propose_cpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, const CpuMachine& machine, Forms forms) {
  return Planner(cluster, scop, layouts, options, machine, forms).propose();
}

}  // namespace tc::plan
