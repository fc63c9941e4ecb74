#include "plan/options/constraints.h"

#include <algorithm>

#include "base/error.h"
#include "base/notes.h"
#include "base/numbers.h"

namespace tc::plan {
namespace {

bool any_vector(const std::vector<NestPlan>& nests) {
  return std::any_of(nests.begin(), nests.end(), [](const NestPlan& nest) { return nest.vector; });
}

/// The position of a shared loop by its name; CompilationError where there is none.
int position_of(const Cluster& cluster, const ClusterOptions& options, const std::string& index) {
  const std::vector<std::string> names = shared_names(cluster);
  const auto found = std::find(names.begin(), names.end(), index);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  std::vector<std::string> statements;
  for (const ScopStatement* statement : cluster.statements) statements.push_back(statement->id);
  throw CompilationError(concat("the options speak of a loop ", index, " of ", join(statements),
                                ", which share ",
                                names.empty() ? "no loops" : "the loops " + join(names),
                                complete_plan(options) ? "; a whole Plan is of the target and the "
                                                         "sizes that it was made for"
                                                       : ""));
}

/// Whether an index is of a loop that only some statement has, over terms of a reduction.
bool is_own_reduction(const Cluster& cluster, const std::string& index) {
  for (size_t s = 0; s < cluster.statements.size(); ++s)
    for (int d : poly::rest(cluster, s)) {
      const ir::Iterator& iterator = cluster.statements[s]->source->domain[d];
      if (iterator.name == index && iterator.reduction) return true;
    }
  return false;
}

/// The given sizes, and their order where all are given.
std::vector<Tile> merge(const std::vector<Tile>& given, std::vector<Tile> chosen) {
  if (given.size() >= chosen.size()) return given;
  for (Tile& tile : chosen)
    if (const Tile* other = find_tile(given, tile.index)) tile.size = other->size;
  return chosen;
}

}  // namespace

bool Constraints::allows_shared_vector() const {
  return vectorize && cluster.vector.value_or(true) &&
         !(cluster.nests && any_vector(*cluster.nests));
}

bool Constraints::allows_own_vectors() const {
  return vectorize && !cluster.vector.value_or(false) &&
         !(cluster.nests && !cluster.nests->empty() && !any_vector(*cluster.nests));
}

bool Constraints::allows_register_tiles() const {
  return allows_shared_vector() && !(cluster.registers && cluster.registers->empty()) &&
         !(cluster.nests && !cluster.nests->empty());
}

bool Constraints::sizes_task(const Member& member) const {
  return tasks[static_cast<size_t>(member.position)] > 0;
}

bool Constraints::sizes_tasks() const {
  return std::any_of(tasks.begin(), tasks.end(), [](int64_t size) { return size > 0; });
}

int64_t Constraints::task(const Member& member, int64_t chosen) const {
  const int64_t given = tasks[static_cast<size_t>(member.position)];
  return std::min(std::max<int64_t>(1, member.extent), given > 0 ? given : chosen);
}

Constraints constraints_of(const Cluster& cluster, const MappingOptions& options) {
  Constraints result;
  if (const ClusterOptions* own = options_of(cluster, options)) result.cluster = *own;
  result.vectorize = options.vectorize;
  result.parallel = result.cluster.parallel.value_or(options.parallel);
  result.tasks.assign(cluster.shared, 0);
  // Of the 2018 options, what is not said is whole.
  for (size_t m = 0; m < cluster.shared && !options.tile.empty(); ++m)
    result.tasks[m] = m < options.tile.size() && options.tile[m] > 0 ? options.tile[m] : INT64_MAX;
  if (result.cluster.tasks)
    for (const Tile& tile : *result.cluster.tasks)
      result.tasks[static_cast<size_t>(position_of(cluster, result.cluster, tile.index))] =
          tile.size;
  if (result.cluster.registers)
    for (const Tile& tile : *result.cluster.registers)
      if (!is_own_reduction(cluster, tile.index)) position_of(cluster, result.cluster, tile.index);
  if (result.cluster.order && !result.cluster.order->empty())
    result.last = position_of(cluster, result.cluster, result.cluster.order->back());
  return result;
}

const ClusterOptions* options_of(const Cluster& cluster, const MappingOptions& options) {
  for (const ClusterOptions& own : options.clusters)
    if (std::any_of(
            cluster.statements.begin(), cluster.statements.end(),
            [&](const auto* statement) { return poly::is_named(*statement, own.statements); }))
      return &own;
  return nullptr;
}

void constrain(ClusterPlan& plan, const Constraints& constraints) {
  const ClusterOptions& given = constraints.cluster;
  if (given.order) plan.order = *given.order;
  if (given.tasks) plan.tasks = merge(*given.tasks, plan.tasks);
  if (given.parallel && plan.run_tasks != Tasks::Blocks)
    plan.run_tasks = *given.parallel ? Tasks::Parallel : Tasks::Serial;
  if (given.reductions) plan.reductions = *given.reductions;
  if (given.registers) {
    plan.registers = *given.registers;
    // Tasks have whole register tiles.
    for (Tile& task : plan.tasks) {
      const Tile* points = find_tile(plan.registers, task.index);
      if (points && !(given.tasks && find_tile(*given.tasks, task.index)))
        task.size = round_up(task.size, points->size);
    }
  }
  if (given.instruction) plan.instruction = *given.instruction;
  if (given.vector) plan.vector = *given.vector;
  if (given.nests) plan.nests = *given.nests;
  if (given.points)
    plan.points = *given.points;
  else if (!plan.reductions.empty())
    plan.points = Points::Apart;
  else if (plan.vector && !plan.registers.empty())
    plan.points = Points::Inside;
  if (given.copies) plan.copies = *given.copies;
}

}  // namespace tc::plan
