#include "plan/plan_program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/passes.h"
#include "plan/forms/chain.h"
#include "plan/forms/computed_copies.h"
#include "plan/forms/gpu.h"
#include "plan/forms/register_tiles.h"
#include "plan/notes.h"
#include "plan/propose.h"
#include "poly/dependences.h"
#include "poly/fuse.h"

namespace tc::plan {
namespace {

const Pass kFuse("schedule", "fuse");
const Pass kChain("schedule", "chain");
const Pass kFindSlices("schedule", "find_slices");
const Pass kComputeInCopies("schedule", "compute_in_copies");
const Pass kIdentity("mapping", "identity");

/// Names of statements that have no instances, by the size of some tensor mostly; an
/// initialisation may be left of them.
std::vector<std::string> find_absent(const Scop& scop) {
  std::set<const ir::Statement*> present;
  for (const ScopStatement& statement : scop.statements)
    if (!statement.initialization) present.insert(statement.source);
  std::vector<std::string> names;
  for (const ir::Statement& statement : scop.program->statements)
    if (!present.count(&statement))
      names.insert(names.end(), {statement.name, statement.name + "_init"});
  return names;
}

/// Options are made for sizes at which all statements of a cluster run: where one of them does not,
/// the others share other loops, and nothing but which of them are together is left.
MappingOptions without_decisions(const std::vector<std::string>& absent, MappingOptions options) {
  for (ClusterOptions& cluster : options.clusters) {
    const std::vector<std::string>& names = cluster.statements;
    if (std::find_first_of(names.begin(), names.end(), absent.begin(), absent.end()) == names.end())
      continue;
    ClusterOptions together;
    together.statements = names;
    cluster = std::move(together);
  }
  return options;
}

/// The loops of the text.
Proposal propose_text(const Scop& scop) {
  Proposal proposal;
  run_always(kIdentity, [&] {
    std::vector<const ScopStatement*> all;
    for (const ScopStatement& statement : scop.statements) all.push_back(&statement);
    proposal.mapped.schedule = scop.textual;
    proposal.mapped.notes = describe_statements(all);
    proposal.mapped.notes.push_back(
        {"form", "the loops of the text, serial and scalar, as the options say"});
  });
  return proposal;
}

/// What a cluster computes, and why it is one, in front of what is said of its Plan.
void describe_cluster(const Cluster& cluster, Proposal& proposal) {
  Notes statements = describe_statements(cluster.statements);
  if (!cluster.apart.empty()) statements.push_back({"apart", cluster.apart});
  if (!cluster.outer.empty())
    statements.push_back({"chain", concat(cluster.joined ? "in the loop of the group before: "
                                                         : "in one loop with the next group: ",
                                          describe_outer_loops(cluster))});
  Notes& notes = proposal.mapped.notes;
  notes.insert(notes.begin(), statements.begin(), statements.end());
  if (cluster.joined) proposal.mapped.joined = cluster.outer[0].size();
}

/// Plans the clusters of a program on the CPU, and leaves out those that copies of others compute.
class CpuPlanner {
 public:
  explicit CpuPlanner(const PlanContext& in) : in_(in) {}

  void plan(ProgramPlan& program) const {
    const auto left = leave_to_copies(program.clusters, in_);
    for (const Cluster& cluster : program.clusters)
      program.groups.push_back(propose(cluster, Forms::All));
    std::optional<ProgramPlan> blocks = plan_blocks(program);
    compute(program, left);
    if (!blocks) return;
    compute(*blocks, left);
    const double own = cycles(*blocks), others = cycles(program);
    if (own >= others) return;
    program = std::move(*blocks);
    for (Proposal& group : program.groups)
      if (computes_in_copies(group))
        group.mapped.notes.push_back(
            {"prologue", concat(count_text(own), " cycles of all groups, ", count_text(others),
                                " with forms that have no such copies")});
  }

 private:
  Proposal propose(const Cluster& cluster, Forms forms) const {
    return propose_cpu(cluster, in_.scop, in_.layouts, in_.options, in_.machine, forms);
  }

  /// With blocks where clusters have other forms now, so that copies might compute what these read:
  /// the cheapest form of a cluster may be one that makes others dearer.
  std::optional<ProgramPlan> plan_blocks(const ProgramPlan& program) const {
    std::optional<ProgramPlan> blocks;
    for (size_t c = 0; c < program.clusters.size(); ++c) {
      const Cluster& cluster = program.clusters[c];
      const bool may_have_block = has_inner_loops(cluster) && suits_register_tiles(cluster);
      if (!may_have_block || !cluster.outer.empty() ||
          !lacks_copies(cluster, program.groups[c], in_.scop))
        continue;
      Proposal block = propose(cluster, Forms::Blocks);
      if (lacks_copies(cluster, block, in_.scop)) continue;
      if (!blocks) blocks = program;
      blocks->groups[c] = std::move(block);
    }
    return blocks;
  }

  /// What they take is known as soon as copies are made or refused.
  void compute(ProgramPlan& program, const std::vector<const ScopStatement*>& left) const {
    run_pass(kComputeInCopies, [&] {
      return compute_in_copies(
          program.clusters, program.groups, in_, left,
          [&](const Cluster& cluster) { return propose(cluster, Forms::All); });
    });
    for (size_t c = 0; c < program.clusters.size(); ++c)
      program.groups[c].estimate =
          estimate(program.groups[c].plan,
                   {program.clusters[c], *in_.scop.program, in_.layouts, in_.machine});
  }

  static bool computes_in_copies(const Proposal& group) {
    const auto& copies = group.mapped.promotions;
    return std::any_of(copies.begin(), copies.end(),
                       [](const poly::Promotion& copy) { return copy.computed != nullptr; });
  }

  static double cycles(const ProgramPlan& program) {
    double all = 0;
    for (const Proposal& group : program.groups) all += group.estimate.total();
    return all;
  }

  const PlanContext in_;
};

}  // namespace

ProgramPlan plan_program(const Scop& scop, const Layouts& layouts, const MappingOptions& given,
                         bool cuda, const CpuMachine& machine, StageClock& clock) {
  ProgramPlan plan;
  if (!given.clusters.empty()) plan.absent = find_absent(scop);
  if (scop.statements.empty()) return plan;
  const MappingOptions options = without_decisions(plan.absent, given);
  if (options.identity) {
    plan.groups.push_back(propose_text(scop));
    return plan;
  }
  const Dependences dependences = poly::find_dependences(scop);
  const PlanContext in{scop, dependences, layouts, options, machine};
  clock.done("dependences");
  // A strategy that was chosen by the user is not extended.
  const bool rows = !cuda && options.outer_fusion == FusionStrategy::Preserve3Coincident;
  std::vector<std::vector<std::string>> together;
  for (const ClusterOptions& cluster : options.clusters) together.push_back(cluster.statements);
  const auto fuse = [&] {
    return run_pass(
        kFuse,
        [&] {
          return poly::fuse(scop, dependences, options.outer_fusion, rows, layouts,
                            machine.cache_bytes, together);
        },
        [&](const auto& fused) { return fused.size() < scop.program->statements.size(); });
  };
  std::vector<Cluster> clusters = fuse();
  const bool plans_fit = !cuda || do_plans_fit(clusters, options);
  if (!plans_fit) {
    // Names that are those of other statements bring together what shares no loops.
    together.clear();
    for (const ClusterOptions& cluster : options.clusters)
      if (!complete_plan(cluster)) together.push_back(cluster.statements);
    clusters = fuse();
  }
  // Sizes of tiles by position speak of loops that chains would take away.
  if (rows && options.tile.empty()) {
    clusters = run_pass(
        kChain, [&] { return chain(clusters, in); },
        [](const auto& chained) {
          return std::any_of(chained.begin(), chained.end(),
                             [](const Cluster& each) { return !each.outer.empty(); });
        });
    plan.slices = run_pass(
        kFindSlices, [&] { return poly::find_slices(clusters, scop, layouts); },
        [](const auto& found) { return !found.empty(); });
  }
  plan.clusters = std::move(clusters);
  if (cuda)
    for (const Cluster& cluster : plan.clusters)
      plan.groups.push_back(propose_gpu(cluster, scop, layouts, options, plans_fit));
  else
    CpuPlanner(in).plan(plan);
  for (size_t c = 0; c < plan.clusters.size(); ++c) {
    Proposal& group = plan.groups[c];
    describe_cluster(plan.clusters[c], group);
    if (!cuda)
      group.mapped.notes.push_back({"estimate", concat(count_text(group.estimate.total()),
                                                       " cycles: ", to_string(group.estimate))});
  }
  clock.done("schedule");
  return plan;
}

}  // namespace tc::plan
