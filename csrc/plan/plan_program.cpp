#include "plan/plan_program.h"

#include <algorithm>

#include "base/passes.h"
#include "plan/forms/chain.h"
#include "plan/forms/computed_copies.h"
#include "plan/forms/gpu.h"
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

/// What the Plan takes, as it is now that copies are made or refused.
void estimate_cluster(const Cluster& cluster, const ir::Program& program, const Layouts& layouts,
                      const CpuMachine& machine, Proposal& proposal) {
  proposal.estimate = estimate(proposal.plan, cluster, program, layouts, machine);
  proposal.mapped.notes.push_back({"estimate", concat(count_text(proposal.estimate.total()),
                                                      " cycles: ", to_string(proposal.estimate))});
}

}  // namespace

ProgramPlan plan_program(const Scop& scop, const Layouts& layouts, const MappingOptions& options,
                         bool cuda, const CpuMachine& machine, StageClock& clock) {
  ProgramPlan plan;
  if (scop.statements.empty()) return plan;
  if (options.identity) {
    plan.groups.push_back(propose_text(scop));
    return plan;
  }
  const Dependences dependences = poly::find_dependences(scop);
  clock.done("dependences");
  // A strategy that was chosen by the user is not extended.
  const bool rows = !cuda && options.outer_fusion == FusionStrategy::Preserve3Coincident;
  std::vector<std::vector<std::string>> given;
  for (const ClusterOptions& cluster : options.clusters) given.push_back(cluster.statements);
  std::vector<Cluster> clusters = run_pass(
      kFuse,
      [&] {
        return poly::fuse(scop, dependences, options.outer_fusion, rows, layouts,
                          machine.cache_bytes, given);
      },
      [&](const auto& fused) { return fused.size() < scop.program->statements.size(); });
  // Sizes of tiles by position speak of loops that chains would take away.
  if (rows && options.tile.empty()) {
    clusters = run_pass(
        kChain, [&] { return chain(clusters, scop, dependences, layouts, options, machine); },
        [](const auto& chained) {
          return std::any_of(chained.begin(), chained.end(),
                             [](const Cluster& each) { return !each.outer.empty(); });
        });
    plan.slices = run_pass(
        kFindSlices, [&] { return poly::find_slices(clusters, scop, layouts); },
        [](const auto& found) { return !found.empty(); });
  }
  // Copies are made on the CPU alone.
  const std::vector<const ScopStatement*> left =
      cuda ? std::vector<const ScopStatement*>() : leave_to_copies(clusters, dependences, options);
  const auto propose = [&](const Cluster& cluster) {
    return cuda ? propose_gpu(cluster, scop, layouts, options)
                : propose_cpu(cluster, scop, layouts, options, machine);
  };
  for (const Cluster& cluster : clusters) plan.groups.push_back(propose(cluster));
  if (!cuda)
    run_pass(kComputeInCopies, [&] {
      return compute_in_copies(clusters, plan.groups, scop, dependences, layouts, machine, left,
                               propose);
    });
  for (size_t c = 0; c < clusters.size(); ++c) {
    describe_cluster(clusters[c], plan.groups[c]);
    if (!cuda) estimate_cluster(clusters[c], *scop.program, layouts, machine, plan.groups[c]);
  }
  plan.clusters = std::move(clusters);
  clock.done("schedule");
  return plan;
}

}  // namespace tc::plan
