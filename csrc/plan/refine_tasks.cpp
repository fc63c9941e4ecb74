#include "plan/refine_tasks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/numbers.h"
#include "plan/model/estimate.h"

namespace tc::plan {
namespace {

// Ceiling divisors of an extent by more than so much are as near to each other as powers of two.
constexpr int64_t kMostDivisor = 16;
// By how much the estimate has to find other tasks cheaper (measured: of 200 random contractions 12
// had such tasks, and became 1.3 times faster, 0.97 to 2.6; with 1.05 instead, a third of those
// that were added became slower).
constexpr double kGain = 1.15;
// Tasks that a core keeps, if it has as many: others may be busy.
constexpr int64_t kTasksOfCore = 4;
// An end for descents through many small steps.
constexpr int kMostSteps = 20;

class Refiner {
 public:
  Refiner(const ClusterPlan& plan, const ClusterContext& in, const Constraints& constraints)
      : plan_(plan), in_(in), constraints_(constraints) {
    const Cluster& cluster = in.cluster;
    for (size_t m = 0; m < cluster.shared; ++m) {
      const ir::Iterator& iterator =
          iterator_along(cluster, {static_cast<int>(m), 1, 0}, cluster.statements.size() - 1);
      const int64_t extent = std::max<int64_t>(1, extent_of(iterator));
      const Tile* registers = find_tile(plan.registers, iterator.name);
      loops_.push_back({iterator.name, extent, registers ? registers->size : 1,
                        constraints.tasks[m] > 0 || extent == 1});
    }
    // Loops that have no tile are whole, wherever they stand.
    for (const Loop& loop : loops_)
      if (!find_tile(plan_.tasks, loop.name)) plan_.tasks.push_back({loop.name, loop.extent});
  }

  std::optional<ClusterPlan> refine() {
    const double before = cycles(plan_);
    fewest_tasks_ = std::min(count_tasks(plan_, in_.cluster), kTasksOfCore * in_.machine.cores);
    double best = before;
    for (int step = 0; step < kMostSteps; ++step) {
      std::optional<ClusterPlan> next;
      for (ClusterPlan& near : neighbours()) {
        const double own = cycles(near);
        if (own >= best) continue;
        best = own;
        next = std::move(near);
      }
      if (!next) break;
      plan_ = std::move(*next);
    }
    if (best * kGain > before) return std::nullopt;
    return plan_;
  }

 private:
  struct Loop {
    std::string name;
    int64_t extent, registers;
    bool fixed;
  };

  const Loop& loop_of(const Tile& tile) const {
    return *std::find_if(loops_.begin(), loops_.end(),
                         [&](const Loop& loop) { return loop.name == tile.index; });
  }
  int64_t count(const Tile& tile) const { return divide_up(loop_of(tile).extent, tile.size); }

  /// Of all cores, which wait for the one that has most tasks.
  double cycles(const ClusterPlan& plan) const {
    const double all = estimate(plan, in_).total();
    if (plan.run_tasks != Tasks::Parallel) return all;
    const auto tasks = static_cast<double>(count_tasks(plan, in_.cluster));
    const auto cores = static_cast<double>(in_.machine.cores);
    return all * std::ceil(tasks / cores) * cores / tasks;
  }

  /// As many tiles as of that size, which cores share out better if they are alike.
  static int64_t even(const Loop& loop, int64_t size) {
    const int64_t count = divide_up(loop.extent, size);
    return std::min(loop.extent, round_up(divide_up(loop.extent, count), loop.registers));
  }

  std::vector<ClusterPlan> neighbours() const {
    std::vector<ClusterPlan> found;
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      const Tile& tile = plan_.tasks[t];
      const Loop& loop = loop_of(tile);
      if (loop.fixed) continue;
      std::set<int64_t> sizes;
      for (int64_t size : tile_sizes(loop.extent, loop.registers)) sizes.insert(even(loop, size));
      const auto above = sizes.upper_bound(tile.size), below = sizes.lower_bound(tile.size);
      if (above != sizes.end()) add(t, *above, found);
      if (below != sizes.begin()) add(t, *std::prev(below), found);
    }
    // The order of tiles is the text's where their sizes are.
    if (constraints_.sizes_tasks()) return found;
    for (size_t a = 0; a < plan_.tasks.size(); ++a)
      for (size_t b = a + 1; b < plan_.tasks.size(); ++b) {
        if (count(plan_.tasks[a]) == 1 || count(plan_.tasks[b]) == 1) continue;
        found.push_back(plan_);
        std::swap(found.back().tasks[a], found.back().tasks[b]);
      }
    return found;
  }

  /// With this size in the place of that tile's.
  void add(size_t tile, int64_t size, std::vector<ClusterPlan>& found) const {
    ClusterPlan near = plan_;
    near.tasks[tile].size = size;
    if (plan_.run_tasks == Tasks::Parallel && count_tasks(near, in_.cluster) < fewest_tasks_)
      return;
    found.push_back(std::move(near));
  }

  ClusterPlan plan_;
  const ClusterContext in_;
  const Constraints& constraints_;
  std::vector<Loop> loops_;  ///< shared, by position
  int64_t fewest_tasks_ = 1;
};

}  // namespace

std::vector<int64_t> tile_sizes(int64_t extent, int64_t registers) {
  extent = std::max<int64_t>(1, extent);
  std::set<int64_t> sizes = {extent};
  const auto add = [&](int64_t size) { sizes.insert(std::min(extent, round_up(size, registers))); };
  for (int64_t size = 1; size < extent; size *= 2) add(size);
  for (int64_t size = registers; size < extent; size *= 2) add(size);
  for (int64_t divisor = 2; divisor <= std::min(extent, kMostDivisor); ++divisor)
    add(divide_up(extent, divisor));
  return {sizes.begin(), sizes.end()};
}

std::optional<ClusterPlan> refine_tasks(const ClusterPlan& plan, const ClusterContext& in,
                                        const Constraints& constraints) {
  if (in.cluster.shared == 0 || !has_inner_loops(in.cluster) || !computes_one(in.cluster))
    return std::nullopt;
  return Refiner(plan, in, constraints).refine();
}

}  // namespace tc::plan
