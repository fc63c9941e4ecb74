#include "codegen/next_part.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/memory.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

// Lines that an iteration prefetches at most: more would wait for each other.
constexpr int64_t kMostLines = 8;
// Loops count in 32 bits.
constexpr int64_t kMostIterations = std::numeric_limits<int32_t>::max();

/// The iterations of serial loops inside the one that moves a part.
struct Iterations {
  Expr done = 0;      ///< before this one
  int64_t count = 1;  ///< at least
  const AroundLoop* mover = nullptr;
};

std::optional<Iterations> count_iterations(const Part& part, const AroundLoops& around) {
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

int64_t power_below(int64_t value) {
  int64_t power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

}  // namespace

Stmt prefetch_next_part(const Part& part, const AroundLoops& around, int64_t least_steps) {
  auto iterations = count_iterations(part, around);
  if (!iterations) return Stmt();
  int64_t span = part.width, gap = std::numeric_limits<int64_t>::max();
  for (const Part::Walk& walk : part.walks) {
    span += (walk.extent - 1) * walk.step;
    gap = std::min(gap, walk.step - part.width);
  }
  const std::string& mover = iterations->mover->name;
  auto step = ir::step_along(part.start, mover);
  // Behind this part, or between its runs.
  if (!step || *step < part.width || (*step > part.width && *step > gap && *step < span))
    return Stmt();

  // Long runs are walked over line by line.
  const int64_t line = std::max<int64_t>(1, kLineBytes / part.type.bytes());
  int64_t lines = (part.width + line - 1) / line;
  std::vector<Part::Walk> walks = part.walks;
  if (lines > kMostLines) {
    walks.insert(walks.begin(), {lines, line});
    lines = 1;
  }
  int64_t runs = 1;
  for (const Part::Walk& walk : walks) runs *= walk.extent;
  const int64_t steps = iterations->count / runs;
  if (steps < least_steps) return Stmt();
  // Several runs in an iteration, or one in so many. A power of two is told from a number's bits.
  const int64_t each = power_below(std::max<int64_t>(1, steps));
  const int64_t together = (runs + iterations->count - 1) / iterations->count;
  if (together * lines > kMostLines) return Stmt();

  Expr first = iterations->done / static_cast<int>(each) * static_cast<int>(together);
  Expr now = iterations->done % static_cast<int>(each) == 0 && first < static_cast<int>(runs);
  std::vector<Stmt> prefetches;
  for (int64_t t = 0; t < together; ++t) {
    Expr number = first + static_cast<int>(t);
    // What lies behind a buffer may have a place that 32 bits do not hold.
    Expr place =
        Halide::cast(Halide::Int(64), substitute(mover, ir::make_variable(mover) + 1, part.start));
    for (size_t w = 0; w < walks.size(); ++w) {
      const auto extent = static_cast<int>(walks[w].extent);
      const bool last = w + 1 == walks.size();
      place = place + Halide::cast(Halide::Int(64), last ? number : number % extent) *
                          make_const(Halide::Int(64), walks[w].step);
      if (!last) number = number / extent;
    }
    for (int64_t l = 0; l < lines; ++l)
      prefetches.push_back(ir::make_prefetch(part.type, part.buffer,
                                             simplify(place + static_cast<int>(l * line)), 2));
  }
  return IfThenElse::make(simplify(now), Block::make(prefetches));
}

}  // namespace tc::codegen
