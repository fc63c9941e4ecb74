#include "plan/members.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "base/numbers.h"
#include "ir/scan.h"
#include "ir/visit.h"

namespace tc::plan {

int64_t instances(const ScopStatement& statement) {
  int64_t count = 1;
  for (size_t d = 0; d < statement.dimensions; ++d) count *= extent_of(statement.source->domain[d]);
  return count;
}

int count_lanes(const Cluster& cluster, const ir::Program& program, int vector_bits) {
  int bits = 8;
  for (const ScopStatement* statement : cluster.statements)
    bits = std::max(bits, program.tensor(statement->source->tensor).type.bits());
  return std::max(1, vector_bits / bits);
}

std::vector<Member> analyze_members(const Cluster& cluster, const ir::Program& program,
                                    const Layouts& layouts, int lanes) {
  std::vector<Member> members(cluster.shared);
  for (int m = 0; m < static_cast<int>(cluster.shared); ++m) {
    members[m].position = m;
    for (size_t s = 0; s < cluster.statements.size(); ++s) {
      const ScopStatement& statement = *cluster.statements[s];
      const ir::Iterator& iterator = iterator_along(cluster, members[m], s);
      members[m].extent = extent_of(iterator);
      double weight = static_cast<double>(instances(statement));
      members[m].cost += vector_cost(statement, program, layouts, iterator, lanes) * weight;
    }
  }
  return members;
}

double vector_cost(const ScopStatement& statement, const ir::Program& program,
                   const Layouts& layouts, const ir::Iterator& iterator, int most_lanes) {
  // What adding up the lanes of the partial results costs.
  constexpr double kAcross = 8;
  // Storing a vector whose lanes go on from one another: four steps of two.
  constexpr double kScan = 9;
  const auto lanes = static_cast<double>(std::min<int64_t>(most_lanes, extent_of(iterator)));
  double terms = 1;
  for (size_t d = 0; d < statement.dimensions; ++d)
    if (statement.source->domain[d].reduction)
      terms *= static_cast<double>(extent_of(statement.source->domain[d]));
  const bool scans = ir::is_scan(*statement.source) && iterator.reduction;
  double cost = 0;
  for (const ir::MemoryAccess& access : accesses(program, *statement.source)) {
    if (statement.initialization && !access.write) continue;
    auto stride = stride_along(access, layouts.at(access.tensor), iterator.name);
    // Lanes that go on from their neighbours have to be neighbours in memory.
    if (access.write && scans)
      cost += stride && std::abs(*stride) == 1 ? kScan / lanes
                                               : std::numeric_limits<double>::infinity();
    // Lanes must not meet in one place.
    else if (access.write && iterator.reduction && ir::is_scatter(*statement.source) &&
             stride.value_or(0) == 0)
      cost = std::numeric_limits<double>::infinity();
    else if (access.write && iterator.reduction && !ir::is_scatter(*statement.source))
      cost += kAcross / terms;
    else if (stride && *stride == 0 && !access.write)
      cost += 0.1 / lanes;
    else if (stride && (*stride == 1 || (*stride == -1 && scans)))
      cost += 1 / lanes;
    else
      cost += access.write ? 2 : 1;
  }
  return cost;
}

int64_t distance_of_results(const ClusterContext& in, const Member& member) {
  std::optional<int64_t> distance;
  for (size_t s = 0; s < in.cluster.statements.size(); ++s) {
    const ir::MemoryAccess write = accesses(in.program, *in.cluster.statements[s]->source).back();
    const std::string& index = iterator_along(in.cluster, member, s).name;
    const auto stride = stride_along(write, in.layouts.at(write.tensor), index);
    if (!stride || distance.value_or(*stride) != *stride) return 0;
    distance = stride;
  }
  return distance.value_or(0);
}

void move_vector_last(std::vector<Member>& members) {
  if (members.empty()) return;
  auto best =
      std::min_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
        return a.cost != b.cost ? a.cost < b.cost : a.position > b.position;
      });
  std::rotate(best, best + 1, members.end());
}

const ir::Iterator& iterator_along(const Cluster& cluster, const Member& member, size_t statement) {
  return cluster.statements[statement]
      ->source->domain[cluster.alignment[statement][static_cast<size_t>(member.position)]];
}

std::string name_of(const Cluster& cluster, const Member& member) {
  return iterator_along(cluster, member, cluster.statements.size() - 1).name;
}

std::vector<std::string> shared_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (int d : cluster.alignment.back())
    names.push_back(cluster.statements.back()->source->domain[d].name);
  return names;
}

std::string shared_text(const Cluster& cluster, size_t statement, const ir::MemoryAccess& access) {
  const std::vector<ir::Iterator>& domain = cluster.statements[statement]->source->domain;
  std::map<std::string, ir::Expr> names;
  const auto add = [&](const std::vector<int>& iterators, const std::string& kind, bool extents) {
    for (size_t k = 0; k < iterators.size(); ++k) {
      const ir::Iterator& iterator = domain[iterators[k]];
      const std::string extent = extents ? concat(".", extent_of(iterator)) : "";
      names[iterator.name] = ir::make_variable(concat(kind, k, extent));
    }
  };
  if (!cluster.outer.empty()) add(cluster.outer[statement], "outer", false);
  add(cluster.alignment[statement], "shared", false);
  add(poly::rest(cluster, statement), "own", true);
  ir::MemoryAccess renamed = access;
  for (ir::Expr& subscript : renamed.subscripts) subscript = ir::graph_substitute(names, subscript);
  return access_text(renamed);
}

bool computes_one(const Cluster& cluster) {
  return std::all_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* statement) {
                       return statement->source == cluster.statements[0]->source;
                     });
}

/// Of a shared loop, by its name.
static int64_t extent_along(const Cluster& cluster, const std::string& index) {
  return extent_of(*ir::find_index(cluster.statements.back()->source->domain, index));
}

std::string describe_tiles(const Cluster& cluster, const std::vector<Tile>& tiles) {
  std::string text;
  for (const auto& [index, size] : tiles) {
    const int64_t extent = extent_along(cluster, index), count = divide_up(extent, size);
    text += concat(text.empty() ? "" : ", ", index);
    if (size == 1)
      text += concat(" one by one (", count, ")");
    else if (count > 1)
      text += concat(" in ", count, " tiles of ", size);
    else
      text += concat(" whole (", extent, ")");
  }
  return text;
}

std::string describe_outer_loops(const Cluster& cluster) {
  std::string text;
  const std::vector<ir::Iterator>& domain = cluster.statements.back()->source->domain;
  for (int d : cluster.outer.back())
    text += concat(text.empty() ? "" : ", ", domain[d].name, " one by one (", extent_of(domain[d]),
                   ")");
  return text;
}

int64_t outer_iterations(const Cluster& cluster) {
  int64_t count = 1;
  if (!cluster.outer.empty())
    for (int d : cluster.outer[0]) count *= extent_of(cluster.statements[0]->source->domain[d]);
  return count;
}

int64_t count_accesses(const Cluster& cluster, const ir::Program& program) {
  int64_t count = 0;
  for (const ScopStatement* statement : cluster.statements)
    count +=
        instances(*statement) * static_cast<int64_t>(accesses(program, *statement->source).size());
  return count;
}

size_t count_shared(const Cluster& cluster) {
  return cluster.shared + (cluster.outer.empty() ? 0 : cluster.outer[0].size());
}

bool has_inner_loops(const Cluster& cluster) {
  return std::any_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* s) { return s->dimensions > count_shared(cluster); });
}

int64_t count_tasks(const ClusterPlan& plan, const Cluster& cluster) {
  const int64_t outer = cluster.outer_parallel ? outer_iterations(cluster) : 1;
  return plan.run_tasks == Tasks::Parallel ? outer * count_tiles(cluster, plan.tasks) : outer;
}

int64_t count_tiles(const std::vector<Member>& members, const std::vector<int64_t>& sizes) {
  int64_t tiles = 1;
  for (size_t k = 0; k < members.size(); ++k) tiles *= divide_up(members[k].extent, sizes[k]);
  return tiles;
}

int64_t count_tiles(const Cluster& cluster, const std::vector<Tile>& tiles) {
  int64_t count = 1;
  for (const auto& [index, size] : tiles) count *= divide_up(extent_along(cluster, index), size);
  return count;
}

ClusterPlan begin_plan(const Cluster& cluster, const std::vector<Member>& members,
                       const std::vector<int64_t>& sizes, Tasks run) {
  ClusterPlan plan;
  for (const ScopStatement* statement : cluster.statements)
    plan.statements.push_back(statement->id);
  if (!cluster.outer.empty())
    for (int d : cluster.outer.back())
      plan.outer.push_back(cluster.statements.back()->source->domain[d].name);
  plan.joined = cluster.joined;
  for (const Member& member : members) plan.order.push_back(name_of(cluster, member));
  if (!sizes.empty()) plan.tasks = make_tiles(cluster, members, sizes);
  plan.run_tasks = run;
  return plan;
}

std::vector<Tile> make_tiles(const Cluster& cluster, const std::vector<Member>& members,
                             const std::vector<int64_t>& sizes) {
  std::vector<Tile> tiles;
  for (size_t m = 0; m < members.size(); ++m)
    tiles.push_back({name_of(cluster, members[m]), sizes[m]});
  return tiles;
}

}  // namespace tc::plan
