#include "plan/forms/rows.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "ir/loops.h"
#include "ir/scan.h"
#include "plan/forms/operands.h"
#include "plan/notes.h"

namespace tc::plan {
namespace {

/// A statement's loops below the shared band.
struct StatementNest {
  std::vector<int> iterators;  ///< outermost first
  bool vector = false;         ///< whether the innermost is one
  long place = 0;              ///< of the vector, in the order of the text
  std::vector<double> costs;   ///< memory operations with each of the iterators as the vector
  double scalar = 0;           ///< and without one
};

StatementNest choose_nest(const ClusterContext& in, size_t s, int lanes) {
  const ScopStatement& statement = *in.cluster.statements[s];
  StatementNest nest;
  nest.iterators = poly::rest(in.cluster, s);
  const auto count = static_cast<double>(instances(statement));
  // Without a vector every access counts, and the arithmetic as one more.
  double least = 1 + static_cast<double>(accesses(in.program, *statement.source).size());
  nest.scalar = least * count;
  for (size_t k = 0; k < nest.iterators.size(); ++k) {
    const ir::Iterator& iterator = statement.source->domain[nest.iterators[k]];
    const double cost = vector_cost(statement, in.program, in.layouts, iterator, lanes);
    nest.costs.push_back(cost * count);
    if (Halide::Internal::is_const_one(iterator.extent) || cost > least ||
        (cost == least && !nest.vector))
      continue;
    least = cost;
    nest.place = static_cast<long>(k);
    nest.vector = true;
  }
  const auto move_last = [&](auto& list) {
    std::rotate(list.begin() + nest.place, list.begin() + nest.place + 1, list.end());
  };
  if (!nest.vector) return nest;
  move_last(nest.iterators);
  move_last(nest.costs);
  return nest;
}

/// Statements that share a nest.
struct Group {
  std::vector<size_t> statements;  ///< indices in the cluster
  std::set<std::string> tensors;
};

class Grouper {
 public:
  Grouper(const Cluster& cluster, const std::vector<StatementNest>& nests,
          const ir::Program& program)
      : cluster_(cluster), nests_(nests), program_(program) {}

  std::vector<Group> group() const {
    std::vector<Group> groups;
    for (size_t s = 0; s < cluster_.statements.size(); ++s) {
      std::set<std::string> tensors;
      for (const ir::MemoryAccess& access : accesses(program_, *cluster_.statements[s]->source))
        tensors.insert(access.tensor);
      // Nothing may move in front of what it depends on.
      size_t first = groups.size(), joined = groups.size();
      for (; first > 0 && joined == groups.size(); --first) {
        if (agree(groups[first - 1], s, tensors)) joined = first - 1;
        if (depends(groups[first - 1], s)) break;
      }
      if (joined < groups.size()) {
        groups[joined].statements.push_back(s);
        groups[joined].tensors.insert(tensors.begin(), tensors.end());
      } else {
        // What has no loops moves as far up as it can, out of the way of others.
        size_t at = nests_[s].iterators.empty() ? first : groups.size();
        groups.insert(groups.begin() + static_cast<long>(at), Group{{s}, tensors});
      }
    }
    return groups;
  }

 private:
  /// Null where there are none.
  const isl::map* between(size_t a, size_t b) const {
    auto found =
        cluster_.dependences.find({cluster_.statements[a]->id, cluster_.statements[b]->id});
    return found == cluster_.dependences.end() ? nullptr : &found->second;
  }
  bool depends(const Group& group, size_t s) const {
    return std::any_of(group.statements.begin(), group.statements.end(),
                       [&](size_t other) { return between(other, s) != nullptr; });
  }
  /// Whether the statement may share the group's loops, and uses the same data: everything that it
  /// needs of the group comes from the same iteration.
  bool agree(const Group& group, size_t s, const std::set<std::string>& tensors) const {
    return same_loops(group, s) &&
           std::any_of(tensors.begin(), tensors.end(),
                       [&](const std::string& name) { return group.tensors.count(name) > 0; }) &&
           std::all_of(group.statements.begin(), group.statements.end(),
                       [&](size_t other) { return same_iteration(other, s); });
  }
  bool same_loops(const Group& group, size_t s) const {
    const StatementNest &a = nests_[group.statements[0]], &b = nests_[s];
    if (a.iterators.empty() || a.iterators.size() != b.iterators.size() || a.vector != b.vector)
      return false;
    const auto& domain_a = cluster_.statements[group.statements[0]]->source->domain;
    const auto& domain_b = cluster_.statements[s]->source->domain;
    for (size_t k = 0; k < a.iterators.size(); ++k)
      if (!have_same_range(domain_a[a.iterators[k]], domain_b[b.iterators[k]])) return false;
    return true;
  }
  bool same_iteration(size_t a, size_t b) const {
    const isl::map* dependences = between(a, b);
    return !dependences ||
           poly::is_of_same_iteration(*dependences, nests_[a].iterators, nests_[b].iterators);
  }

  const Cluster& cluster_;
  const std::vector<StatementNest>& nests_;
  const ir::Program& program_;
};

std::vector<StatementNest> choose_nests(const ClusterContext& in) {
  const int lanes = count_lanes(in.cluster, in.program, in.machine.step_bits());
  std::vector<StatementNest> nests;
  for (size_t s = 0; s < in.cluster.statements.size(); ++s)
    nests.push_back(choose_nest(in, s, lanes));
  return nests;
}

/// Of a block along a loop of that extent: what divides it leaves no rows over, which run one by
/// one. At most `most`; 1 where there is none.
int64_t rows_of_block(int64_t extent, int64_t most) {
  for (int64_t rows : {4, 3, 2})
    if (rows <= most && extent % rows == 0) return rows;
  return 1;
}

/// Rows of so few vectors that every step of the loops around them waits for the one before are
/// computed at once: sums of other rows fill the time.
void share_steps(const Cluster& cluster, const ir::Statement& statement, const StatementNest& nest,
                 const CpuMachine& machine, std::vector<int64_t>& block) {
  const int64_t vectors = divide_up(extent_of(statement.domain[nest.iterators.back()]),
                                    machine.vector_bits / statement.value.type().bits());
  int64_t steps = 1;
  for (int d : nest.iterators) steps *= extent_of(statement.domain[d]);
  steps /= extent_of(statement.domain[nest.iterators.back()]);
  const int64_t most = machine.sums_in_flight() / vectors;
  if (most < 2 || steps < machine.sums_in_flight()) return;
  for (size_t m = cluster.shared; m-- > 0;) {
    const int64_t extent = extent_of(iterator_along(cluster, {static_cast<int>(m), 1, 0}, 0));
    block[m] = rows_of_block(extent, most);
    if (block[m] > 1) return;
  }
}

/// Which statements share a nest, its vector, and what lost.
std::string describe_nest(const Cluster& cluster, const std::vector<StatementNest>& nests,
                          const Group& group) {
  std::vector<std::string> names, lost;
  const StatementNest& first = nests[group.statements[0]];
  const auto& domain = cluster.statements[group.statements[0]]->source->domain;
  std::vector<double> costs(first.iterators.size());
  double scalar = 0;
  bool scans = false;
  for (size_t s : group.statements) {
    scans = scans || ir::is_scan(*cluster.statements[s]->source);
    names.push_back(cluster.statements[s]->source->name);
    scalar += nests[s].scalar;
    for (size_t k = 0; k < costs.size(); ++k) costs[k] += nests[s].costs[k];
  }
  const ir::Iterator& innermost = domain[first.iterators.back()];
  for (size_t k = costs.size() - 1; k-- > 0;)
    lost.push_back(count_text(costs[k]) + " along " + domain[first.iterators[k]].name);
  if (first.vector) lost.push_back(count_text(scalar) + " scalar");
  return concat(join(names), ": ", first.vector ? "vectors along " : "scalar along ",
                innermost.name, ", ", count_text(first.vector ? costs.back() : scalar),
                " memory operations", lost.empty() ? "" : " (" + join(lost) + ")",
                !first.vector || !innermost.reduction ? ""
                : scans                               ? ", each lane from those before it"
                                                      : ", a partial result in every lane");
}

/// A read that lies across the vector of its nest, and how a task copies it.
struct AcrossRead {
  poly::CopyLayout order;
  size_t along = 0;     ///< the shared loop, by its place, in which neighbours follow
  double elements = 1;  ///< of a task's copy
};

/// `loops`: the shared ones, then those of the statement's nest; `sizes` of a task along them.
std::optional<AcrossRead> find_across(const ir::MemoryAccess& access, const Layout& layout,
                                      const std::vector<std::string>& loops,
                                      const std::vector<int64_t>& sizes, size_t shared) {
  const auto apart = stride_along(access, layout, loops.back());
  if (!apart || std::abs(*apart) < 2) return std::nullopt;
  AcrossRead read;
  read.along = shared;
  for (size_t k = 0; k < shared && read.along == shared; ++k)
    if (stride_along(access, layout, loops[k]) == 1) read.along = k;
  if (read.along == shared) return std::nullopt;
  auto order = order_of_use(access, loops);
  if (!order) return std::nullopt;
  read.order = std::move(*order);
  for (size_t k = 0; k < loops.size(); ++k)
    if (std::any_of(access.subscripts.begin(), access.subscripts.end(),
                    [&](const Halide::Expr& subscript) {
                      return ir::step_along(subscript, loops[k]) != 0;
                    }))
      read.elements *= static_cast<double>(sizes[k]);
  return read;
}

}  // namespace

bool has_own_vectors(const ClusterContext& in) {
  const std::vector<StatementNest> nests = choose_nests(in);
  return std::any_of(nests.begin(), nests.end(),
                     [](const StatementNest& nest) { return nest.vector; });
}

RowBlock choose_row_block(const ClusterContext& in) {
  const Cluster& cluster = in.cluster;
  RowBlock result{std::vector<int64_t>(cluster.shared, 1)};
  std::vector<int64_t>& block = result.sizes;
  std::vector<StatementNest> nests = choose_nests(in);
  size_t update = nests.size();
  for (size_t s = 0; s < nests.size(); ++s) {
    if (nests[s].iterators.empty()) continue;
    const auto& domain = cluster.statements[s]->source->domain;
    if (update < nests.size() || !nests[s].vector || ir::is_scan(*cluster.statements[s]->source) ||
        !std::all_of(nests[s].iterators.begin(), nests[s].iterators.end(),
                     [&](int d) { return domain[d].reduction; }))
      return result;
    update = s;
  }
  if (update == nests.size()) return result;
  const ir::Statement& statement = *cluster.statements[update]->source;
  const std::string& lane = statement.domain[nests[update].iterators.back()].name;
  // Half the registers hold partial results, two a row (see codegen/vectors/vector_reductions).
  int64_t left = in.machine.vector_registers / 4;
  int blocked = 0;
  for (size_t m = cluster.shared; m-- > 0 && blocked < 2;) {
    const ir::Iterator& row = statement.domain[cluster.alignment[update][m]];
    bool reused = false;
    for (const ir::MemoryAccess& access : accesses(in.program, statement)) {
      const Layout& layout = in.layouts.at(access.tensor);
      reused = reused || (!access.write && stride_along(access, layout, row.name) == 0 &&
                          stride_along(access, layout, lane) != 0);
    }
    if (!reused) continue;
    const int64_t extent = extent_of(row);
    ++blocked;
    block[m] = rows_of_block(extent, left);
    if (block[m] == 1) block[m] = std::min({extent, left, int64_t{4}});
    left /= block[m];
  }
  result.shares_loads = blocked > 0;
  if (blocked == 0) share_steps(cluster, statement, nests[update], in.machine, block);
  return result;
}

ClusterPlan plan_rows(const ClusterContext& in, const std::vector<Member>& members,
                      const std::vector<int64_t>& sizes, const std::vector<int64_t>& blocks,
                      bool parallel, bool apart, Notes& notes) {
  const Cluster& cluster = in.cluster;
  const std::vector<StatementNest> nests = choose_nests(in);
  const std::vector<Group> groups = Grouper(cluster, nests, in.program).group();
  ClusterPlan plan =
      begin_plan(cluster, members, sizes, parallel ? Tasks::Parallel : Tasks::Serial);
  std::vector<std::string> loops;
  for (const Group& group : groups) {
    const size_t first = group.statements[0];
    if (!nests[first].iterators.empty()) loops.push_back(describe_nest(cluster, nests, group));
    NestPlan nest;
    nest.vector = nests[first].vector;
    for (size_t s : group.statements) nest.statements.push_back(cluster.statements[s]->id);
    nest.loops.clear();
    for (size_t s : group.statements) {
      std::vector<std::string> names;
      for (int d : nests[s].iterators)
        names.push_back(cluster.statements[s]->source->domain[d].name);
      nest.loops.push_back(names);
    }
    // Loops in the same places have one list.
    if (std::all_of(group.statements.begin(), group.statements.end(),
                    [&](size_t s) { return nests[s].place == nests[first].place; }))
      nest.loops.resize(1);
    plan.nests.push_back(nest);
  }
  const std::vector<int64_t> ones(members.size(), 1);
  const bool blocked = count_tiles(members, blocks) < count_tiles(members, ones);
  if (blocked) plan.registers = make_tiles(cluster, members, blocks);
  if (apart && groups.size() > 1 && cluster.shared > 0 && !blocked) plan.points = Points::Apart;
  notes.push_back({"loops", join(loops, "\n")});
  return plan;
}

std::optional<ClusterPlan> copy_across(const ClusterContext& in, const Constraints& constraints,
                                       ClusterPlan plan) {
  const Cluster& cluster = in.cluster;
  if (!plan.registers.empty() || plan.order.empty()) return std::nullopt;
  std::vector<Member> members;
  const std::vector<Member> band = analyze_members(cluster, in.program, in.layouts, 1);
  for (const std::string& name : plan.order)
    for (const Member& member : band)
      if (name_of(cluster, member) == name) members.push_back(member);
  std::vector<int64_t> sizes;
  for (const Member& member : members) {
    const Tile* tile = find_tile(plan.tasks, name_of(cluster, member));
    sizes.push_back(tile ? std::min(tile->size, member.extent) : member.extent);
  }
  const std::vector<StatementNest> nests = choose_nests(in);
  std::set<std::string> written;
  for (const ScopStatement* statement : cluster.statements)
    written.insert(statement->source->tensor);
  double bytes = 0;
  for (size_t s = 0; s < nests.size(); ++s) {
    if (!nests[s].vector) continue;
    const ScopStatement& statement = *cluster.statements[s];
    std::vector<std::string> loops;
    std::vector<int64_t> points = sizes;
    for (const Member& member : members) loops.push_back(iterator_along(cluster, member, s).name);
    for (int d : nests[s].iterators) {
      loops.push_back(statement.source->domain[d].name);
      points.push_back(extent_of(statement.source->domain[d]));
    }
    for (const ir::MemoryAccess& access : accesses(in.program, *statement.source)) {
      if (access.write || access.conditional || written.count(access.tensor)) continue;
      const std::string text = access_text(access);
      const bool known = std::any_of(plan.copies.begin(), plan.copies.end(), [&](const auto& copy) {
        return copy.statement == statement.id && copy.read == text;
      });
      auto read = find_across(access, in.layouts.at(access.tensor), loops, points, members.size());
      if (!read || known) continue;
      // Whole cache lines.
      const Member& along = members[read->along];
      const int element = in.program.tensor(access.tensor).type.bytes();
      const int64_t line = kLineBytes / element;
      const int64_t size = std::min(along.extent, round_up(sizes[read->along], line));
      if (!constraints.sizes_task(along) && size > sizes[read->along]) {
        read->elements *= static_cast<double>(size) / static_cast<double>(sizes[read->along]);
        points[read->along] = sizes[read->along] = size;
        for (Tile& tile : plan.tasks)
          if (tile.index == name_of(cluster, along)) tile.size = size;
      }
      bytes += read->elements * element;
      plan.copies.push_back({statement.id, text, read->order, ""});
    }
  }
  if (plan.copies.empty() || bytes > static_cast<double>(in.machine.cache_bytes))
    return std::nullopt;
  return plan;
}

}  // namespace tc::plan
