#include "plan/forms/element_blocks.h"

#include <algorithm>
#include <set>
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
// Rows of what blocks do not share are so many streams more at a time. Of one statement none gains
// (measured with a Zen 4: gradients of prelu and of softmax along columns 0.6 to 0.97 times as
// fast). Several that read the same have more on its way so: halves of rows that are rotated 1.5
// times as fast with 16 streams, their gradient 0.96 times with 32.
constexpr int64_t kMostStreams = 16;
// Of the estimate without a block, the share that loads and lines from caches have at least, and by
// how much a block has to be cheaper: choices (measured with a Zen 4: products of rows of two
// matrices of 64 x 128 1.25 times faster in blocks).
constexpr double kLoads = 0.1, kCheaper = 1.1;

/// `each` gets a read's text, and which members it moves along.
template <class Each>
void for_each_read(const ClusterContext& in, const std::vector<Member>& members, Each each) {
  for (size_t s = 0; s < in.cluster.statements.size(); ++s)
    for (const ir::MemoryAccess& access : accesses(in.program, *in.cluster.statements[s]->source)) {
      const Layout& layout = in.layouts.at(access.tensor);
      const auto moves = [&](size_t m) {
        return stride_along(access, layout, iterator_along(in.cluster, members[m], s).name) != 0;
      };
      if (!access.write) each(shared_text(in.cluster, s, access), moves);
    }
}

/// Whether something is read along the vector that stays the same along the member.
bool shares_loads(const ClusterContext& in, const std::vector<Member>& members, size_t m) {
  bool shares = false;
  for_each_read(in, members, [&](const std::string&, const auto& moves) {
    shares = shares || (moves(members.size() - 1) && !moves(m));
  });
  return shares;
}

/// Accesses along the vector, each row of which is a stream of its own: what moves along all of
/// these members.
int64_t count_streams(const ClusterContext& in, const std::vector<Member>& members,
                      const std::vector<size_t>& rows) {
  std::set<std::string> reads;
  for_each_read(in, members, [&](const std::string& read, const auto& moves) {
    if (moves(members.size() - 1) && std::all_of(rows.begin(), rows.end(), moves))
      reads.insert(read);
  });
  return static_cast<int64_t>(reads.size() + in.cluster.statements.size());
}

/// Of a point of all statements.
int64_t count_operations(const Cluster& cluster) {
  int64_t operations = 0;
  for (const ScopStatement* statement : cluster.statements)
    operations += 1 + ir::count_instructions(statement->source->value);
  return operations;
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
    if (members[m].extent > 1 && shares_loads(in, members, m)) rows.push_back(m);
  if (rows.empty()) return std::nullopt;
  // The innermost ones, whose rows are near each other.
  if (rows.size() > 2) rows.erase(rows.begin(), rows.end() - 2);
  const auto statements = static_cast<int64_t>(in.cluster.statements.size());
  const int64_t streams = count_streams(in, members, rows);
  if (statements == 1 && streams > 1) return std::nullopt;
  const int64_t lanes = count_lanes(in.cluster, in.program, in.machine.vector_bits);
  const int64_t operations = count_operations(in.cluster);
  std::optional<ClusterPlan> best;
  double cycles = plain.total() / kCheaper;
  for (const int64_t first : kRows)
    for (const int64_t second : kRows)
      for (const int64_t vectors : kVectors) {
        if (first * second == 1 || (rows.size() == 1 && second > 1)) continue;
        if (first * second * statements * vectors > in.machine.vector_registers / 2 ||
            (statements > 1 && first * second * streams > kMostStreams) ||
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
  const int64_t operations = count_operations(in.cluster);
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
