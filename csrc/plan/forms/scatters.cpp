#include "plan/forms/scatters.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/numbers.h"
#include "plan/members.h"
#include "plan/notes.h"

namespace tc::plan {
namespace {

// A task takes whole cache lines of each row, so that no two write to one, and of vectors a row
// that makes up for starting to read and write elsewhere.
constexpr int64_t kVectorRowBytes = 128;
// Of a row whose neighbours lie on pages of their own, so many at a time: they share where a point
// goes, and more drive each other out of the first cache (measured with a Zen 4: 32 planes of 64 x
// 64 by fours in 0.45 ms, by eights in 0.67, one by one in 1.15, all at once in 4.2).
constexpr int64_t kFarRow = 4;
// Points of a task that make up for starting it.
constexpr int64_t kTaskPoints = 4096;
// Tasks for every thread, so that none waits long for the last.
constexpr int64_t kTasksPerThread = 4;

/// The loop that is best innermost.
struct Innermost {
  int iterator = -1;  ///< none where all have one iteration
  bool vector = false;
  double cost = 0;  ///< memory operations for one point
};

/// Memory operations for one point with this iterator innermost, one lane at a time.
double scalar_cost(const ir::Statement& statement, const ir::Program& program,
                   const Layouts& layouts, const std::string& iterator) {
  // Neighbours share a cache line.
  constexpr double kNear = 0.5;
  double cost = 0;
  for (const ir::MemoryAccess& access : accesses(program, statement)) {
    auto stride = stride_along(access, layouts.at(access.tensor), iterator);
    cost += !stride ? 1 : *stride == 0 ? 0 : *stride == 1 ? kNear : 1;
  }
  return 1 + cost;
}

/// How far apart neighbours along an index are written.
std::optional<int64_t> write_stride(const ir::Statement& statement, const Layouts& layouts,
                                    const std::string& index) {
  const ir::MemoryAccess write{statement.tensor, statement.subscripts, true};
  return stride_along(write, layouts.at(statement.tensor), index);
}

Innermost choose_innermost(const Cluster& cluster, const ir::Program& program,
                           const Layouts& layouts, bool vectorize, int lanes) {
  const std::vector<ir::Iterator>& domain = cluster.statements[0]->source->domain;
  Innermost best;
  for (size_t d = 0; d < domain.size(); ++d) {
    const ir::Iterator& iterator = domain[d];
    if (extent_of(iterator) == 1) continue;
    const bool vector =
        vectorize &&
        std::all_of(cluster.statements.begin(), cluster.statements.end(),
                    [&](const ScopStatement* statement) {
                      return write_stride(*statement->source, layouts, iterator.name) == 1;
                    });
    double cost = 0;
    for (const ScopStatement* statement : cluster.statements)
      cost += vector ? vector_cost(*statement, program, layouts, iterator, lanes)
                     : scalar_cost(*statement->source, program, layouts, iterator.name);
    if (best.iterator < 0 || cost <= best.cost) best = {static_cast<int>(d), vector, cost};
  }
  return best;
}

/// Whether a plain index moves inside what lies at one place of an outer scattered dimension, as c
/// and d of O(b(e), c, d): with its loop around that over e, lines at a place are fetched again for
/// each of its points.
bool moves_inside_place(const ir::Statement& statement, const Layouts& layouts,
                        const std::string& index) {
  const Layout& layout = layouts.at(statement.tensor);
  const std::optional<int64_t> stride = write_stride(statement, layouts, index);
  int64_t place = 0;
  for (size_t d = 0; d < statement.scattered.size(); ++d)
    if (statement.scattered[d]) place = std::max(place, std::abs(layout.strides[d]));
  return stride && std::abs(*stride) < place;
}

}  // namespace

bool is_scatter(const Cluster& cluster) { return ir::is_scatter(*cluster.statements[0]->source); }

ClusterPlan plan_scatter(const ClusterContext& in, const Constraints& constraints, bool parallel,
                         Notes& notes) {
  const auto& [cluster, program, layouts, machine] = in;
  TC_INTERNAL_CHECK(cluster.outer.empty(), "a scatter lies in a chain");
  // All have the same indices, and write the same tensor.
  const ScopStatement& statement = *cluster.statements[0];
  const std::vector<ir::Iterator>& domain = statement.source->domain;
  Innermost innermost = choose_innermost(cluster, program, layouts, constraints.vectorize,
                                         count_lanes(cluster, program, machine.step_bits()));

  std::vector<Member> members;
  std::vector<int> serial;
  for (int d = 0; d < static_cast<int>(domain.size()); ++d) {
    if (domain[d].reduction)
      serial.push_back(d);
    else
      members.push_back({d, extent_of(domain[d]), 0});
  }
  auto move_last = [&](auto& list, auto position) {
    auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) {
      return position(each) == innermost.iterator;
    });
    bool inside = found != list.end();
    if (inside) std::rotate(found, found + 1, list.end());
    return inside;
  };
  bool plain = move_last(members, [](const Member& member) { return member.position; });
  move_last(serial, [](int d) { return d; });
  // What lies at a place is passed over whole, or in as few parts as there are threads.
  const bool in_serial = innermost.vector && !plain;
  const auto is_part = [&](const Member& member) {
    return !in_serial && !(plain && &member == &members.back()) &&
           moves_inside_place(*statement.source, layouts, domain[member.position].name);
  };
  const bool has_parts = std::any_of(members.begin(), members.end(), is_part);

  // Tiles of the innermost take as much of a row as leaves tasks for all threads, those of the
  // others as many rows as make a task.
  std::vector<int64_t> sizes(members.size(), 1);
  int64_t points = 1;
  for (int d : serial) points *= extent_of(domain[d]);
  int64_t rows = 1;
  for (size_t m = 0; m < members.size(); ++m) {
    if (is_part(members[m])) {
      const int64_t tasks = parallel ? std::max<int64_t>(1, divide_up(machine.threads, rows)) : 1;
      sizes[m] = divide_up(members[m].extent, tasks);
    } else if (plain && m + 1 == members.size()) {
      const int64_t bytes = program.tensor(statement.source->tensor).type.bytes();
      const auto stride =
          write_stride(*statement.source, layouts, domain[members[m].position].name);
      auto row = [&](int64_t tasks) {
        tasks = parallel ? std::max<int64_t>(1, tasks / rows) : 1;
        return divide_up(members[m].extent, tasks);
      };
      int64_t shortest = (innermost.vector ? kVectorRowBytes : kLineBytes) / bytes;
      const bool far = std::abs(stride.value_or(0)) * bytes >= kPageBytes;
      sizes[m] =
          far ? kFarRow
              : round_up(std::max(row((innermost.vector ? 1 : kTasksPerThread) * machine.threads),
                                  shortest),
                         kLineBytes / bytes);
    }
    sizes[m] = constraints.task(members[m], sizes[m]);
    rows *= members[m].extent;
  }
  for (size_t m = 0; m < members.size(); ++m)
    if (is_part(members[m]) || (plain && m + 1 == members.size())) points *= sizes[m];
  for (size_t m = members.size() - plain; m-- > 0;) {
    if (is_part(members[m])) continue;
    sizes[m] = constraints.task(
        members[m], std::clamp<int64_t>(machine.least(kTaskPoints) / points, 1, members[m].extent));
    points *= sizes[m];
  }

  ClusterPlan plan =
      begin_plan(cluster, members, sizes, parallel ? Tasks::Parallel : Tasks::Serial);
  // Of plain indices only the innermost goes below the serial loops, and those with it that move
  // inside a place: tiles of others have one point there, or few points in all.
  if (has_parts)
    plan.points = Points::Inside;
  else if (plain)
    plan.points = Points::VectorInside;
  plan.vector = innermost.vector && plain;
  std::vector<std::string> order;
  for (int d : serial) order.push_back(domain[d].name);
  plan.nests = {{plan.statements, {plan.statements.size(), order}, in_serial}};

  std::string form = "a scatter: ";
  for (const Member& member : members)
    if (is_part(member)) order.push_back(domain[member.position].name);
  if (plain) order.push_back(domain[innermost.iterator].name);
  form += order.empty() ? "one point" : concat("loops over ", join(order), " inside each task");
  if (innermost.vector && (plain || !has_parts))
    form += ", vectors along " + domain[innermost.iterator].name;
  notes.push_back({"form", form});
  if (!members.empty())
    notes.push_back(
        describe_tasks(plan, cluster, constraints, "no two of which meet in one place"));
  return plan;
}

}  // namespace tc::plan
