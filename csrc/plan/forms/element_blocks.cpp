#include "plan/forms/element_blocks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/numbers.h"
#include "ir/operations.h"
#include "plan/model/estimate.h"

namespace tc::plan {
namespace {

// Rows along a member and vectors of a block; of all of these together, the vector operations that
// LLVM schedules well.
constexpr int64_t kRows[] = {1, 2, 4, 8};
constexpr int64_t kVectors[] = {1, 2, 4};
constexpr int64_t kMostVectorOperations = 256;
// Of the estimate without a block, the share that loads and lines from caches have at least, and by
// how much a block has to be cheaper: choices (measured with a Zen 4: products of rows of two
// matrices of 64 x 128 1.25 times faster in blocks).
constexpr double kLoads = 0.15, kCheaper = 1.15;

/// Whether a statement reads something along the vector that stays the same along the member.
bool shares_loads(const ClusterContext& in, const Member& member, const Member& vector) {
  const ScopStatement& statement = *in.cluster.statements.front();
  const std::string& row = iterator_along(in.cluster, member, 0).name;
  const std::string& lane = iterator_along(in.cluster, vector, 0).name;
  const auto reads = accesses(in.program, *statement.source);
  return std::any_of(reads.begin(), reads.end(), [&](const ir::MemoryAccess& access) {
    const Layout& layout = in.layouts.at(access.tensor);
    return !access.write && stride_along(access, layout, row) == 0 &&
           stride_along(access, layout, lane) != 0;
  });
}

/// Whether all that a statement reads along the vector stays the same along some of these members.
/// Rows of what does not are so many streams more at a time, of which the processor follows few
/// (measured with a Zen 4: gradients of prelu and of softmax along columns 0.6 times as fast).
bool shares_all(const ClusterContext& in, const std::vector<Member>& members,
                const std::vector<size_t>& rows) {
  const ScopStatement& statement = *in.cluster.statements.front();
  const std::string& lane = iterator_along(in.cluster, members.back(), 0).name;
  const auto all = accesses(in.program, *statement.source);
  return std::all_of(all.begin(), all.end(), [&](const ir::MemoryAccess& access) {
    const Layout& layout = in.layouts.at(access.tensor);
    if (access.write || stride_along(access, layout, lane) == 0) return true;
    return std::any_of(rows.begin(), rows.end(), [&](size_t m) {
      const std::string& row = iterator_along(in.cluster, members[m], 0).name;
      return stride_along(access, layout, row) == 0;
    });
  });
}

/// With a block of such sizes, one a member.
ClusterPlan with_block(const ClusterContext& in, const std::vector<Member>& members,
                       const ClusterPlan& elements, const std::vector<int64_t>& block) {
  ClusterPlan plan = elements;
  plan.points = Points::Inside;
  for (size_t m = 0; m < members.size(); ++m) {
    if (block[m] <= 1) continue;
    const std::string name = name_of(in.cluster, members[m]);
    plan.registers.push_back({name, block[m]});
    for (Tile& task : plan.tasks)
      if (task.index == name)
        task.size = std::min(members[m].extent, round_up(task.size, block[m]));
  }
  return plan;
}

}  // namespace

std::optional<ClusterPlan> plan_element_blocks(const ClusterContext& in,
                                               const std::vector<Member>& members,
                                               const ClusterPlan& elements) {
  const Estimate plain = estimate(elements, in);
  if (plain.loads + plain.second_cache < kLoads * plain.total()) return std::nullopt;
  const Member& vector = members.back();
  std::vector<size_t> rows;
  for (size_t m = 0; m + 1 < members.size(); ++m)
    if (members[m].extent > 1 && shares_loads(in, members[m], vector)) rows.push_back(m);
  if (rows.empty()) return std::nullopt;
  // The innermost ones, whose rows are near each other.
  if (rows.size() > 2) rows.erase(rows.begin(), rows.end() - 2);
  if (!shares_all(in, members, rows)) return std::nullopt;
  const int64_t lanes = count_lanes(in.cluster, in.program, in.machine.vector_bits);
  const int64_t operations =
      1 + ir::count_instructions(in.cluster.statements.front()->source->value);
  std::optional<ClusterPlan> best;
  double cycles = plain.total() / kCheaper;
  for (const int64_t first : kRows)
    for (const int64_t second : kRows)
      for (const int64_t vectors : kVectors) {
        if (first * second == 1 || (rows.size() == 1 && second > 1)) continue;
        if (first * second * vectors > in.machine.vector_registers / 2 ||
            first * second * vectors * operations > kMostVectorOperations)
          continue;
        std::vector<int64_t> block(members.size(), 1);
        block[rows.back()] = first;
        if (second > 1) block[rows.front()] = second;
        block.back() = std::min(vector.extent, vectors * lanes);
        bool fits = vectors == 1 || (vectors - 1) * lanes < vector.extent;
        for (const size_t m : rows) fits = fits && block[m] <= members[m].extent;
        if (!fits) continue;
        ClusterPlan plan = with_block(in, members, elements, block);
        const double total = estimate(plan, in).total();
        if (total >= cycles) continue;
        cycles = total;
        best = std::move(plan);
      }
  return best;
}

std::optional<ClusterPlan> plan_interleaved_rows(const ClusterContext& in,
                                                 const std::vector<Member>& members,
                                                 const ClusterPlan& elements) {
  const size_t row = members.size() - 2, vector = members.size() - 1;
  const int64_t lanes = count_lanes(in.cluster, in.program, in.machine.vector_bits);
  int64_t operations = 0;
  for (const ScopStatement* statement : in.cluster.statements)
    operations += 1 + ir::count_instructions(statement->source->value);
  // Of several vectors, LLVM makes one long permutation of those that load and those that store
  // (measured with a Zen 4: cross products of 131072 rows in 96 us by one vector, in 139 by two).
  std::vector<int64_t> block(members.size(), 1);
  block[row] = members[row].extent;
  block[vector] = lanes;
  if (lanes > members[vector].extent || block[row] * operations > kMostVectorOperations)
    return std::nullopt;
  ClusterPlan plan = with_block(in, members, elements, block);
  if (estimate(plan, in).total() >= estimate(elements, in).total()) return std::nullopt;
  return plan;
}

}  // namespace tc::plan
