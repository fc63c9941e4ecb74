#include "codegen/prefetch/prefetch_panels.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "codegen/names.h"
#include "codegen/prefetch/next_part.h"
#include "codegen/prefetch/walks.h"

namespace tc::codegen {
namespace {

/// The elements side by side that an iteration reads; nothing where they have gaps or are one.
std::optional<Footprint> find_row_of_panel(const Read& read) {
  Footprint row(read);
  for (auto loop = read.inside.rbegin(); loop != read.inside.rend(); ++loop) {
    auto walk = row.along(*loop);
    if (!walk || (walk->step != 0 && walk->step != row.width)) return std::nullopt;
    row.widen(*loop, *walk);
  }
  return row.width > 1 ? std::optional(row) : std::nullopt;
}

/// The rows that a body reads: one of each buffer.
std::vector<Footprint> find_rows_of_panel(const Nest& body) {
  std::vector<Footprint> rows;
  for (const Read& read : find_reads(body)) {
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const Footprint& known) {
      return known.buffer == read.buffer;
    });
    if (auto row = known ? std::nullopt : find_row_of_panel(read)) rows.push_back(*row);
  }
  return rows;
}

/// Of the innermost loop, and of those around it that go on where it ends.
int64_t count_steps(const Footprint& row, int64_t step, const Around& around) {
  int64_t steps = 1;
  const std::vector<AroundLoop>& loops = around.loops();
  for (auto loop = loops.rbegin(); loop != loops.rend() && loop->serial; ++loop) {
    auto extent = as_const_int(loop->extent);
    if (!extent || row.step(loop->name) != step * steps) break;
    steps *= *extent;
  }
  return steps;
}

/// Whether an iteration of some serial loop around reads the same rows as the one before it.
bool is_read_again(const Footprint& row, const Around& around) {
  const std::vector<AroundLoop>& loops = around.loops();
  return std::any_of(loops.begin(), loops.end(), [&](const AroundLoop& loop) {
    return loop.serial && !expr_uses_var(row.start, loop.name);
  });
}

/// Whether a loop waits for rows that lie so far apart. In register tiles, which leave the time to
/// prefetch more, that is a shorter way, and shorter still where the loop walks through more than
/// the first cache keeps for the next block of results.
bool waits(const Footprint& row, int64_t step, const Around& around, const CpuMachine& machine) {
  const int64_t apart = std::abs(step) * row.type.bytes();
  if (apart >= machine.followed_bytes) return true;
  if (!around.in_tile || apart < kLineBytes || (step == row.width && !is_read_again(row, around)))
    return false;
  if (apart >= machine.followed_bytes / 4) return true;
  const int64_t steps = count_steps(row, step, around);
  return steps >= 2 * machine.steps_ahead &&
         steps * row.lines() * kLineBytes >= machine.first_cache_bytes / 2;
}

/// The rows that the loop and the ones around it walk over, up to the first that reads them again.
std::optional<Footprint> find_part(const Footprint& row, const Around& around) {
  Footprint part = row;
  const std::vector<AroundLoop>& loops = around.loops();
  for (auto loop = loops.rbegin(); loop != loops.rend() && loop->serial; ++loop) {
    if (!expr_uses_var(part.start, loop->name)) break;
    auto walk = part.along(*loop);
    if (!walk) return std::nullopt;
    part.repeat(*loop, *walk);
  }
  return part;
}

}  // namespace

Nest prefetch_panels(const Nest& nest, const std::set<std::string>& large,
                     const CpuMachine& machine) {
  return change_innermost_loops(nest, [&](const Nest& loop, const Around& around) {
    std::vector<Nest> prefetches;
    for (const Footprint& row : find_rows_of_panel(as<Loop>(loop)->body)) {
      auto step = row.step(around.loops().back().name);
      // Wider ones are no blocks of results in registers.
      if (row.lines() > machine.lines_at_once() || !step || !waits(row, *step, around, machine))
        continue;
      Expr ahead = wide(row.start) + wide(*step * machine.steps_ahead);
      auto prefetch = [&](int64_t element) {
        prefetches.push_back(row.prefetch(simplify(ahead + static_cast<int>(element))));
      };
      for (int64_t l = 0; l < row.lines(); ++l) prefetch(l * row.line());
      // Where rows begin anywhere in a line, they end in one more.
      if (*step * row.type.bytes() % kLineBytes != 0) prefetch(row.width - 1);
      auto part = large.count(row.buffer) ? find_part(row, around) : std::nullopt;
      if (Nest next = part ? prefetch_next_part(*part, around, 2, machine) : nullptr)
        prefetches.push_back(next);
    }
    return nest::prepend(loop, prefetches);
  });
}

}  // namespace tc::codegen
