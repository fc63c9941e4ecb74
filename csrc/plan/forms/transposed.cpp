#include "plan/forms/transposed.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/numbers.h"
#include "plan/forms/operands.h"
#include "plan/notes.h"

namespace tc::plan {
namespace {

// Rows and columns of a tile: whole cache lines of both sides, and a copy for the first-level
// cache.
constexpr int64_t kSide = 64;
// Squares of which so many have room in a whole one are short.
constexpr int64_t kSmall = 4;

/// The reads that are contiguous along the last member but one, and not along the last one, the
/// vector, with their dimensions in the order of the members.
std::vector<PackedRead> find_reads(const ClusterContext& in, const std::vector<Member>& members) {
  const Cluster& cluster = in.cluster;
  std::vector<PackedRead> found;
  for (size_t s = 0; s < cluster.statements.size(); ++s) {
    const ScopStatement& statement = *cluster.statements[s];
    for (const ir::MemoryAccess& access : accesses(in.program, *statement.source)) {
      bool written = std::any_of(
          cluster.statements.begin(), cluster.statements.end(),
          [&](const ScopStatement* other) { return other->source->tensor == access.tensor; });
      if (access.write || access.conditional || written) continue;
      const Layout& layout = in.layouts.at(access.tensor);
      auto iterator = [&](size_t m) { return iterator_along(cluster, members[m], s).name; };
      auto along_vector = stride_along(access, layout, iterator(members.size() - 1));
      if (stride_along(access, layout, iterator(members.size() - 2)) != 1 || !along_vector ||
          *along_vector == 0 || *along_vector == 1)
        continue;
      std::vector<std::string> loops;
      for (size_t m = 0; m < members.size(); ++m) loops.push_back(iterator(m));
      auto order = order_of_use(access, loops);
      if (!order) continue;
      found.push_back({&statement, access, std::move(*order), {}});
    }
  }
  return found;
}

/// Squares of the last two members. Where these are short, a task has several, as many elements as
/// a whole square: first of those that lie next to each other in what is read, whose lines they
/// share (benchmarks/thresholds.md).
std::vector<int64_t> task_sizes(const ClusterContext& in, const std::vector<Member>& members,
                                const PackedRead& read, const Constraints& constraints) {
  const auto s = static_cast<size_t>(std::distance(
      in.cluster.statements.begin(),
      std::find(in.cluster.statements.begin(), in.cluster.statements.end(), read.statement)));
  std::vector<int64_t> sizes(members.size(), 1);
  int64_t room = kSide * kSide;
  const auto choose = [&](size_t m, int64_t size) {
    sizes[m] = constraints.task(members[m], size);
    room /= std::clamp<int64_t>(sizes[m], 1, std::max<int64_t>(1, members[m].extent));
  };
  choose(members.size() - 1, kSide);
  choose(members.size() - 2, kSide);
  if (room < kSmall) room = 1;
  std::vector<std::pair<int64_t, size_t>> outer;
  for (size_t m = 0; m + 2 < members.size(); ++m) {
    const auto stride = stride_along(read.read, in.layouts.at(read.read.tensor),
                                     iterator_along(in.cluster, members[m], s).name);
    outer.emplace_back(
        stride && *stride != 0 ? std::abs(*stride) : std::numeric_limits<int64_t>::max(), m);
  }
  std::sort(outer.begin(), outer.end());
  for (const auto& [stride, m] : outer) {
    const int64_t extent = std::max<int64_t>(1, members[m].extent);
    // Of equal tiles, so that no task is much smaller.
    choose(m, divide_up(extent, divide_up(extent, std::max<int64_t>(1, room))));
  }
  return sizes;
}

}  // namespace

std::optional<ClusterPlan> plan_transposed(const ClusterContext& in, std::vector<Member> members,
                                           const Constraints& constraints, bool parallel,
                                           Notes& notes) {
  const Cluster& cluster = in.cluster;
  if (members.size() < 2 || members.back().extent < 2) return std::nullopt;
  std::vector<PackedRead> reads;
  for (size_t m = 0; m + 1 < members.size() && reads.empty(); ++m) {
    if (members[m].extent < 2) continue;
    std::vector<Member> order = members;
    std::rotate(order.begin() + static_cast<int>(m), order.begin() + static_cast<int>(m) + 1,
                order.end() - 1);
    reads = find_reads(in, order);
    if (!reads.empty()) members = order;
  }
  if (reads.empty()) return std::nullopt;

  const std::vector<int64_t> sizes = task_sizes(in, members, reads[0], constraints);
  ClusterPlan plan =
      begin_plan(cluster, members, sizes, parallel ? Tasks::Parallel : Tasks::Serial);
  plan.vector = true;
  for (const PackedRead& read : reads)
    plan.copies.push_back(
        {read.statement->id, access_text(read.read), read.order, "", 4 * kSide * kSide});
  notes = {{"form", concat("squares with vectors along ", name_of(cluster, members.back()),
                           ", since ", reads[0].read.tensor, " lies along ",
                           name_of(cluster, members[members.size() - 2]))},
           describe_tasks(plan, cluster, constraints, "whole cache lines of both sides")};
  return plan;
}

}  // namespace tc::plan
