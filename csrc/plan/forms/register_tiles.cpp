#include "plan/forms/register_tiles.h"

#include <algorithm>
#include <cmath>

#include "base/numbers.h"
#include "plan/forms/block_tiles.h"
#include "plan/notes.h"

namespace tc::plan {
namespace {

// Rows of results for which a parallel tile of register blocks reuses one panel of columns, and
// tiles for every core without dividing rows from which on it takes as many rows as a cache keeps
// (measured: 64 filters of 256 x 56 x 56 in 2.60 instead of 2.75 ms, 256 of 64 channels in 2.43
// instead of 2.56).
constexpr int64_t kTileRows = 48, kManyTiles = 8;
// Cycles of a task that is too short, since the loops around it and what begins a task are lost,
// and of one that is not (measured: 32 x 32 groups of 26 rows of 8 x 26 results 1.1 times faster by
// groups than by rows).
constexpr double kShortTask = 2000, kTask = 16000;
// By how much a tile may grow where a small one is left over otherwise.
constexpr double kGrowth = 1.15;
// Of the time of the core that has most tiles, what the others must have as well.
constexpr double kBalance = 0.9;

bool is_chunked(const RegisterBlock& block, size_t m) {
  return !block.chunks.empty() && block.chunks[m] > 0;
}

/// Tiles of one size, as many or, where they may grow, slightly larger ones. `size` is a multiple
/// of `points`, or all.
int64_t even_size(const Member& member, int64_t points, int64_t size, bool grow) {
  const int64_t blocks = divide_up(member.extent, points), each = divide_up(size, points);
  int64_t count = divide_up(blocks, each);
  while (grow && count > 1 &&
         static_cast<double>(divide_up(blocks, count - 1)) <= kGrowth * static_cast<double>(each))
    --count;
  return std::min(divide_up(blocks, count) * points, member.extent);
}

/// The work of all cores over what the one with most tiles would do in their place.
double balance(int64_t tiles, int64_t cores) {
  return static_cast<double>(tiles) / static_cast<double>(cores * divide_up(tiles, cores));
}

/// More tiles of a member where the cores would have unlike numbers of them: the fewest that are
/// shared out well.
void share_evenly(const RegisterBlock& block, size_t m, int64_t cores,
                  std::vector<int64_t>& sizes) {
  const int64_t points = block.points[m], extent = block.members[m].extent;
  const int64_t blocks = divide_up(extent, points), count = divide_up(extent, sizes[m]);
  const int64_t others = count_tiles(block.members, sizes) / count;
  double best = balance(others * count, cores);
  for (int64_t more = count + 1; more <= std::min(blocks, count + cores); ++more) {
    if (best >= kBalance) return;
    const int64_t size = divide_up(blocks, more) * points;
    const double reached = balance(others * divide_up(extent, size), cores);
    if (reached <= best) continue;
    best = reached;
    sizes[m] = size;
  }
}

/// Several blocks to a task where single ones are short, as long as every core has many: those that
/// would follow each other. Rows stay as they are, and all rows of a tile pass over one panel of
/// columns before the next.
void join_short_tasks(const RegisterBlock& block, int64_t cores, std::vector<int64_t>& sizes,
                      std::vector<size_t>& inside) {
  const std::vector<Member>& members = block.members;
  auto cycles = [&] { return block.cycles / static_cast<double>(count_tiles(members, sizes)); };
  if (block.cycles <= 0 || cycles() >= kShortTask) return;
  const size_t vector = members.size() - 1;
  for (auto order = block.tile_order.rbegin(); order != block.tile_order.rend(); ++order) {
    const auto m = static_cast<size_t>(*order);
    if (sizes[m] == members[m].extent) continue;
    const bool passes = vector > 0 && sizes[vector - 1] > block.points[vector - 1];
    if (m + 1 == vector || (m == vector && passes)) return;
    const int64_t most = count_tiles(members, sizes) / (kManyTiles * cores);
    const int64_t factor = std::min(static_cast<int64_t>(std::ceil(kTask / cycles())), most);
    if (factor < 2) return;
    sizes[m] = std::min(members[m].extent, sizes[m] * factor);
    inside.push_back(m);
  }
}

/// Whether rows of results that follow each other read the same somewhere: at places that a row
/// does not decide, or in windows that overlap.
bool shares_rows(const ClusterContext& in, const RegisterBlock& block) {
  const size_t last = block.members.size() - 1;
  for (size_t s = 0; s < in.cluster.statements.size(); ++s) {
    const ir::Statement& statement = *in.cluster.statements[s]->source;
    const auto moves = [&](const ir::Expr& subscript, const ir::Iterator& iterator) {
      return Halide::Internal::expr_uses_var(subscript, iterator.name);
    };
    const ir::Iterator& row = iterator_along(in.cluster, block.members[last - 1], s);
    const ir::Iterator& column = iterator_along(in.cluster, block.members[last], s);
    for (const ir::MemoryAccess& access : accesses(in.program, statement)) {
      const auto& subscripts = access.subscripts;
      const auto any_moves = [&](const ir::Iterator& iterator) {
        return std::any_of(subscripts.begin(), subscripts.end(),
                           [&](const ir::Expr& e) { return moves(e, iterator); });
      };
      if (access.write || !any_moves(column)) continue;
      if (!any_moves(row)) return true;
      for (const ir::Expr& e : subscripts)
        for (const ir::Iterator& reduced : statement.domain)
          if (reduced.reduction && moves(e, row) && moves(e, reduced)) return true;
    }
  }
  return false;
}

/// Sizes of the tiles that run in parallel, and that have copies of their own. Where rows `share`
/// nothing, these go from one end to the other, as memory does, in fewer rows if cores have too few
/// tiles otherwise (measured: pooling of 1024 rows of 511 in 121 instead of 148 us; sums of four
/// neighbours in 512 rows of 1021 in 77 instead of 92, in tiles of 16 rows and of 52).
std::vector<int64_t> parallel_tiles(const RegisterBlock& block, const Constraints& constraints,
                                    bool parallel, bool share, int cores) {
  const std::vector<Member>& members = block.members;
  size_t last = members.size() - 1;
  std::vector<int64_t> sizes(block.points);
  std::vector<size_t> inside;  // of the tiles, members that may have other numbers of them
  if (block.packed.empty()) {
    if (members.size() > 1) {
      std::vector<int64_t> whole_rows = sizes;
      whole_rows[last - 1] = members[last - 1].extent;
      bool many = count_tiles(members, whole_rows) >= kManyTiles * cores;
      int64_t rows = many ? std::max(kTileRows, block.near_rows) : kTileRows;
      rows = sizes[last - 1] * std::max<int64_t>(1, rows / sizes[last - 1]);
      sizes[last - 1] = std::min(rows, members[last - 1].extent);
      inside.push_back(last - 1);
      std::vector<int64_t> lines = sizes;
      lines[last] = members[last].extent;
      const int64_t least = kManyTiles * cores, tiles = count_tiles(members, lines);
      if (tiles < least) lines[last - 1] = std::max(block.points[last - 1], rows * tiles / least);
      if (!share && count_tiles(members, lines) >= least) sizes = lines;
    }
    join_short_tasks(block, cores, sizes, inside);
  } else {
    // A copy serves everything that it does not depend on.
    for (size_t m = 0; m < members.size(); ++m) {
      bool moves =
          m == last ||
          std::any_of(block.packed.begin(), block.packed.end(), [&](const PackedRead& read) {
            return std::count(read.members.begin(), read.members.end(), members[m].position) > 0;
          });
      if (moves) continue;
      inside.push_back(m);
      sizes[m] = is_chunked(block, m) ? block.chunks[m] : members[m].extent;
    }
  }
  for (size_t m : inside)
    sizes[m] = even_size(members[m], block.points[m], sizes[m], !is_chunked(block, m));
  for (size_t m = 0; m < members.size(); ++m) sizes[m] = constraints.task(members[m], sizes[m]);
  // Where that takes more tiles, several of them make the same copy.
  if (parallel)
    for (size_t m : inside)
      if (!constraints.sizes_task(members[m])) share_evenly(block, m, cores, sizes);
  return sizes;
}

}  // namespace

bool suits_register_tiles(const Cluster& cluster) {
  return std::all_of(cluster.statements.begin(), cluster.statements.end(),
                     [&](const ScopStatement* statement) {
                       return !ir::is_scatter(*statement->source) &&
                              statement->source->subscripts.size() == count_shared(cluster);
                     });
}

ClusterPlan plan_register_tiles(const ClusterContext& in, const RegisterBlock& block,
                                const Constraints& constraints, bool parallel, Notes& notes) {
  const Cluster& cluster = in.cluster;
  const std::vector<Member>& members = block.members;
  const bool share = members.size() < 2 || shares_rows(in, block);
  const std::vector<int64_t> sizes =
      parallel_tiles(block, constraints, parallel, share, in.machine.cores);
  // A chunk is passed over by the tiles of all other members.
  std::vector<int> order =
      block.packed.empty() ? order_by_traffic(block, sizes, in.machine) : block.tile_order;
  std::stable_partition(order.begin(), order.end(),
                        [&](int m) { return is_chunked(block, static_cast<size_t>(m)); });
  ClusterPlan plan = begin_plan(cluster, members);
  for (int m : order) plan.tasks.push_back({name_of(cluster, members[m]), sizes[m]});
  plan.run_tasks = parallel ? Tasks::Parallel : Tasks::Serial;
  if (!block.reduction_tile.empty()) {
    auto size = block.reduction_tile.begin();
    for (const ir::Iterator& iterator : block.packed[0].statement->source->domain)
      if (iterator.reduction) plan.reductions.push_back({iterator.name, *size++});
  }
  plan.registers = make_tiles(cluster, members, block.points);
  plan.points = block.reduction_tile.empty() ? Points::Inside : Points::Apart;
  plan.vector = true;
  // Windows of several rows overlap, which the choice of reduction tiles does not count: a copy is
  // refused where it exceeds the second-level cache.
  for (const PackedRead& read : block.packed) {
    const int64_t most =
        2 * in.machine.cache_bytes / in.program.tensor(read.read.tensor).type.bytes();
    plan.copies.push_back({read.statement->id, access_text(read.read), read.order, "", most});
  }
  notes.push_back(describe_tasks(plan, cluster, constraints,
                                 block.packed.empty() && share
                                     ? "blocks of rows that reuse a panel of columns"
                                 : block.packed.empty() ? "blocks of rows that share nothing"
                                                        : "each with copies of its own"));
  return plan;
}

}  // namespace tc::plan
