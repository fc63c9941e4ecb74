#include "plan/forms/gpu.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/passes.h"
#include "isa/instructions.h"
#include "plan/notes.h"
#include "plan/options/constraints.h"
#include "plan/resolve.h"

namespace tc::plan {
namespace {

const Pass kOneThread("mapping", "one_thread");
const Pass kBlocksAndThreads("mapping", "blocks_and_threads");

// Threads of a block when the options leave the choice to the compiler: enough warps to hide
// latency, few enough registers each that several blocks share a multiprocessor.
constexpr int64_t kThreads = 256;
constexpr int64_t kWarp = 32;

// What CUDA allows on the third dimension of a block.
constexpr int64_t kMostOnZ = 64;

/// Iterations of the members beside the last one that may be threads of the same block.
int64_t others_on_threads(const std::vector<Member>& members) {
  int64_t count = 1;
  for (size_t axis = 1; axis < std::min(kThreadAxes, members.size()); ++axis)
    count = std::min(kThreads, count * members[members.size() - 1 - axis].extent);
  return count;
}

/// Where the members on threads x and y are short and the next one would leave most of a block
/// empty, the longest of the others comes in its place.
void fill_block(std::vector<Member>& members) {
  if (members.size() <= kThreadAxes) return;
  const auto z = members.end() - static_cast<long>(kThreadAxes);
  if (z[0].extent * z[1].extent * z[2].extent >= kThreads / 2) return;
  const auto longest = std::max_element(
      members.begin(), z + 1, [](const Member& a, const Member& b) { return a.extent < b.extent; });
  std::rotate(longest, longest + 1, z + 1);
}

/// Points of a tile, member by member; the last member has consecutive addresses and thread x.
/// Where that one is too short to fill a block the next ones on threads have the rest: neighbours
/// in memory, too, where they are the next dimensions. Numbers of `given` threads hold.
std::vector<int64_t> tile_sizes(const std::vector<Member>& members, const Constraints& constraints,
                                const std::vector<int64_t>& given) {
  std::vector<int64_t> sizes(members.size(), 1);
  int64_t threads = 1;
  for (size_t k = members.size(); k-- > 0;) {
    const Member& member = members[k];
    const size_t axis = members.size() - 1 - k;
    int64_t wanted = 1;
    if (!given.empty()) {
      wanted = axis < given.size() ? given[axis] : 1;
    } else if (axis == 0) {
      wanted = std::max(kWarp, kThreads / others_on_threads(members) / kWarp * kWarp);
    } else if (axis < kThreadAxes) {
      wanted = std::max<int64_t>(1, kThreads / threads);
      if (axis + 1 == kThreadAxes) wanted = std::min(wanted, kMostOnZ);
    }
    sizes[k] = constraints.task(member, wanted);
    threads *= sizes[k];
  }
  return sizes;
}

/// Members on threads, and what each would cost as thread x: memory operations of a whole warp.
Notes describe(const Cluster& cluster, const std::vector<Member>& members,
               const std::vector<int64_t>& sizes, bool given) {
  std::vector<std::string> threads, serial;
  std::vector<std::pair<std::string, std::string>> costs;
  int64_t count = 1;
  for (size_t axis = 0; axis < members.size(); ++axis) {
    size_t k = members.size() - 1 - axis;
    std::string name = name_of(cluster, members[k]), points = concat(sizes[k], " of ", name);
    // Infinite is what no vector of a CPU could do, as lanes that meet in one place.
    if (members[k].extent > 1 && std::isfinite(members[k].cost))
      costs.emplace_back(count_text(members[k].cost), name + " on x");
    if (axis >= kThreadAxes && sizes[k] > 1) serial.push_back(points);
    if (axis >= kThreadAxes || (axis > 0 && sizes[k] == 1)) continue;
    threads.push_back(concat(points, " on ", "xyz"[axis]));
    count *= sizes[k];
  }
  std::string text = concat(
      join(threads), ": ", count,
      given ? ", as the options say" : concat("; ", kThreads, " hide the latency of memory"));
  if (!serial.empty()) text += "; each takes " + join(serial);
  Notes notes = {{"form", "a block of threads for every tile, a thread for every point"},
                 {"threads", text},
                 {"blocks", concat(count_tiles(members, sizes), ": ",
                                   describe_tiles(cluster, make_tiles(cluster, members, sizes)))}};
  if (costs.size() > 1) notes.push_back({"accesses", table(costs)});
  return notes;
}

/// Tiles of the shared band as blocks, and their points as threads.
ClusterPlan plan_threads(const Cluster& cluster, std::vector<Member> members,
                         const Constraints& constraints, const std::vector<int64_t>& given,
                         Notes& notes) {
  move_vector_last(members);
  if (!constraints.sizes_tasks()) {
    // Those of one iteration would take a dimension of the block.
    std::stable_partition(members.begin(), members.end(),
                          [](const Member& member) { return member.extent == 1; });
    fill_block(members);
  }
  const std::vector<int64_t> sizes = tile_sizes(members, constraints, given);
  notes = describe(cluster, members, sizes, constraints.sizes_tasks() || !given.empty());
  return begin_plan(cluster, members, sizes, Tasks::Blocks);
}

/// Whether some statement has a loop of this name, shared or not.
bool has_loop(const Cluster& cluster, const std::string& index) {
  for (const ScopStatement* statement : cluster.statements)
    for (const ir::Iterator& iterator : statement->source->domain)
      if (iterator.name == index) return true;
  return false;
}

/// Whether a statement of the cluster adds up what the instruction does.
bool has_sum_of(const isa::Instruction& instruction, const Cluster& cluster) {
  return std::any_of(
      cluster.statements.begin(), cluster.statements.end(), [&](const ScopStatement* statement) {
        const ir::Statement& source = *statement->source;
        return !statement->initialization && source.reduction == ir::Reduction::Sum &&
               isa::match_value(instruction, source.value);
      });
}

/// CompilationError where options that threads have no use for speak of what there is not, as on
/// the CPU.
void check_unused(const ClusterOptions& options, const Cluster& cluster, const Scop& scop,
                  const std::vector<Member>& members) {
  ClusterPlan named = begin_plan(cluster, members);
  if (options.reductions) named.reductions = *options.reductions;
  if (options.copies) named.copies = *options.copies;
  resolve(named, cluster, scop).value();
  if (options.outer)
    for (const std::string& index : *options.outer)
      if (!has_loop(cluster, index))
        throw CompilationError(concat("the options put ", join(named.statements),
                                      " inside loops over ", index, ", of which they have none"));
  if (!options.instruction) return;
  const isa::Instruction* instruction = isa::find_instruction(*options.instruction);
  if (instruction && !has_sum_of(*instruction, cluster))
    throw CompilationError(concat(
        "the options give ", join(named.statements), " the instruction ", instruction->name,
        ", which computes ", ir::assignment_text(instruction->statement), "; none of them does"));
}

/// Whether a Plan is of the statements and loops that the cluster has.
bool is_plan_of(const ClusterPlan& plan, const Cluster& cluster) {
  std::vector<std::string> names = shared_names(cluster), order = plan.order;
  std::sort(names.begin(), names.end());
  std::sort(order.begin(), order.end());
  return order == names && plan.outer.empty() &&
         std::all_of(plan.statements.begin(), plan.statements.end(), [&](const std::string& name) {
           return std::any_of(
               cluster.statements.begin(), cluster.statements.end(),
               [&](const ScopStatement* statement) { return poly::is_named(*statement, {name}); });
         });
}

/// Of a Plan for other loops, the sizes of tasks along those that there are.
ClusterOptions keep_tasks(const ClusterOptions& given, const Cluster& cluster) {
  ClusterOptions kept;
  kept.statements = given.statements;
  const std::vector<std::string> names = shared_names(cluster);
  std::vector<Tile> tasks;
  for (const Tile& tile : *given.tasks)
    if (std::count(names.begin(), names.end(), tile.index) > 0) tasks.push_back(tile);
  if (!tasks.empty()) kept.tasks = std::move(tasks);
  return kept;
}

/// Takes away what options say of vectors, registers and copies, which are those of a CPU.
template <class Decisions>
void leave_to_threads(Decisions& decisions) {
  decisions.reductions = {};
  decisions.registers = {};
  decisions.instruction = {};
  decisions.points = {};
  decisions.vector = {};
  decisions.copies = {};
}
void leave_to_threads(std::vector<NestPlan>& nests) {
  for (NestPlan& nest : nests) nest.vector = false;
}

}  // namespace

Proposal propose_gpu(const Cluster& cluster, const Scop& scop, const Layouts& layouts,
                     const MappingOptions& options, bool plans_fit) {
  const ClusterOptions* own = options_of(cluster, options);
  std::optional<ClusterPlan> given = own ? complete_plan(*own) : std::nullopt;
  const bool of_others = given && !plans_fit;
  MappingOptions used = options;
  if (of_others) {
    used.clusters = {keep_tasks(*own, cluster)};
    given.reset();
  }
  Constraints constraints = constraints_of(cluster, used);
  const std::vector<Member> members = analyze_members(cluster, *scop.program, layouts, kWarp);
  if (!given) check_unused(constraints.cluster, cluster, scop, members);
  leave_to_threads(constraints.cluster);
  if (constraints.cluster.nests) leave_to_threads(*constraints.cluster.nests);
  ClusterPlan plan;
  Notes notes;
  if (given) {
    plan = *given;
    leave_to_threads(plan);
    leave_to_threads(plan.nests);
    // On a CPU, serial tasks are those that are not worth a thread each.
    plan.run_tasks = cluster.shared > 0 ? Tasks::Blocks : Tasks::Serial;
    notes = {{"form", "as the options say"}};
  } else if (cluster.shared == 0) {
    run_always(kOneThread, [&] {
      plan = begin_plan(cluster, {});
      notes = {{"form", "one thread: the statements share no parallel loop"}};
    });
  } else {
    run_always(kBlocksAndThreads,
               [&] { plan = plan_threads(cluster, members, constraints, options.threads, notes); });
  }
  if (of_others)
    notes.push_back({"options",
                     "a whole Plan for other loops than these, as those of a CPU may be; "
                     "of it hold the sizes of tasks along loops that there are"});
  Proposal proposal = apply_proposal(std::move(plan), cluster, scop, constraints);
  proposal.mapped.notes = notes;
  return proposal;
}

bool do_plans_fit(const std::vector<Cluster>& clusters, const MappingOptions& options) {
  return std::all_of(clusters.begin(), clusters.end(), [&](const Cluster& cluster) {
    const ClusterOptions* own = options_of(cluster, options);
    const std::optional<ClusterPlan> given = own ? complete_plan(*own) : std::nullopt;
    return !given || is_plan_of(*given, cluster);
  });
}

}  // namespace tc::plan
