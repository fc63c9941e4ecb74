#include "codegen/prefetch/next_part.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "codegen/names.h"

namespace tc::codegen {
namespace {

// Loops count in 32 bits.
constexpr int64_t kMostIterations = std::numeric_limits<int32_t>::max();

/// The iterations of serial loops inside the one that moves a part.
struct Iterations {
  Expr done = 0;      ///< before this one
  int64_t count = 1;  ///< at least
  const AroundLoop* mover = nullptr;
};

std::optional<Iterations> count_iterations(const Footprint& part, const Around& around) {
  Iterations result;
  bool exact = true;
  for (auto loop = around.loops().rbegin(); loop != around.loops().rend(); ++loop) {
    if (expr_uses_var(part.start, loop->name)) {
      result.mover = &*loop;
      return result;
    }
    if (!loop->serial) continue;
    // The number of the outermost one's iterations may vary, but it counts on the others'.
    if (!exact) return std::nullopt;
    auto fewest = around.least(loop->extent), most = around.most(loop->extent);
    if (!fewest || *fewest < 1 || !most || *most > kMostIterations / result.count)
      return std::nullopt;
    exact = is_const(loop->extent);
    Expr iteration = ir::make_variable(loop->name) - loop->min;
    result.done = result.done + iteration * static_cast<int>(result.count);
    result.count *= *fewest;
  }
  return std::nullopt;
}

/// Whether the next part lies behind this one or between its runs, a step away.
bool is_apart(const Footprint& part, int64_t step) {
  if (step <= part.width) return step == part.width;
  int64_t gap = std::numeric_limits<int64_t>::max();
  for (const Walk& walk : part.walks) gap = std::min(gap, walk.step - part.width);
  return step <= gap || step >= part.span();
}

int64_t power_below(int64_t value) {
  int64_t power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

}  // namespace

Nest prefetch_next_part(const Footprint& part, const Around& around, int64_t least_steps,
                        const CpuMachine& machine) {
  auto iterations = count_iterations(part, around);
  if (!iterations) return nullptr;
  const std::string& mover = iterations->mover->name;
  auto step = part.step(mover);
  if (!step || !is_apart(part, *step)) return nullptr;

  // Long runs are walked over line by line.
  Footprint next = part;
  int64_t lines = part.lines();
  if (lines > machine.lines_at_once()) {
    next.walks.insert(next.walks.begin(), {lines, part.line()});
    lines = 1;
  }
  const int64_t runs = next.runs(), steps = iterations->count / runs;
  if (steps < least_steps) return nullptr;
  // Several runs in an iteration, or one in so many. A power of two is told from a number's bits.
  const int64_t each = power_below(std::max<int64_t>(1, steps));
  const int64_t together = (runs + iterations->count - 1) / iterations->count;
  if (together * lines > machine.lines_at_once()) return nullptr;

  Expr first = iterations->done / static_cast<int>(each) * static_cast<int>(together);
  Expr now = iterations->done % static_cast<int>(each) == 0 && first < static_cast<int>(runs);
  std::vector<Nest> prefetches;
  for (int64_t t = 0; t < together; ++t) {
    Expr number = first + static_cast<int>(t);
    Expr place = wide(substitute(mover, ir::make_variable(mover) + 1, part.start));
    for (size_t w = 0; w < next.walks.size(); ++w) {
      const auto extent = static_cast<int>(next.walks[w].extent);
      const bool last = w + 1 == next.walks.size();
      place = place + wide(last ? number : number % extent) * wide(next.walks[w].step);
      if (!last) number = number / extent;
    }
    for (int64_t l = 0; l < lines; ++l)
      prefetches.push_back(part.prefetch(simplify(place + static_cast<int>(l * part.line())), 2));
  }
  return nest::make(nest::Guard{simplify(now), nest::make_sequence(prefetches), nullptr});
}

}  // namespace tc::codegen
