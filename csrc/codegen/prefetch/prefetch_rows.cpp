#include "codegen/prefetch/prefetch_rows.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "base/numbers.h"
#include "codegen/names.h"
#include "codegen/prefetch/walks.h"
#include "ir/loops.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Where the row of a read begins: the terms of its place that are the same for all lanes. Nothing
/// where another row has its elements in another order, or lanes do not lie where data says.
std::optional<Expr> find_base(const Expr& index, const Read& read, const std::string& row) {
  if (const auto* add = index.as<Add>()) {
    const auto a = find_base(add->a, read, row), b = find_base(add->b, read, row);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  auto moves = [&](const AroundLoop& loop) { return expr_uses_var(index, loop.name); };
  const bool by_lane = std::any_of(read.inside.begin(), read.inside.end(), moves);
  if (!ir::has_load(index)) return by_lane ? std::nullopt : std::optional(index);
  return by_lane && !expr_uses_var(index, row) ? std::optional<Expr>(0) : std::nullopt;
}

/// What an iteration of the innermost loop prefetches of the next row. What is beyond the last row
/// is prefetched as well, which no program notices: as a rule another task reads it next.
void prefetch_piece(const Read& read, const AroundLoop& row, const AroundLoop& loop,
                    std::vector<Nest>& prefetches) {
  const auto extent = as_const_int(loop.extent);
  const auto base = find_base(read.index, read, row.name);
  const int64_t step = base ? ir::step_along(*base, row.name).value_or(0) : 0;
  if (!extent || *extent < 1 || step < 1) return;
  const int64_t line = kLineBytes / read.type.bytes(), lines = divide_up(step, *extent * line);
  if (lines > machine::kPickedLines) return;
  const Expr next = substitute(row.name, ir::make_variable(row.name) + 1, *base);
  const Expr done = ir::make_variable(loop.name) - loop.min;
  for (int64_t l = 0; l < lines; ++l) {
    const Expr place = next + done * static_cast<int>(step) / static_cast<int>(*extent) +
                       static_cast<int>(l * line);
    prefetches.push_back(nest::make(nest::Prefetch{read.buffer, read.type, simplify(place)}));
  }
}

}  // namespace

Nest prefetch_rows(const Nest& nest, const std::set<std::string>& buffers) {
  if (buffers.empty()) return nest;
  return change_innermost_loops(nest, [&](const Nest& loop, const Around& around) {
    const std::vector<AroundLoop>& loops = around.loops();
    std::vector<Nest> prefetches;
    if (loops.size() > 1 && loops[loops.size() - 2].extent.defined())
      for (const Read& read : find_gathers(as<Loop>(loop)->body))
        if (buffers.count(read.buffer))
          prefetch_piece(read, loops[loops.size() - 2], loops.back(), prefetches);
    return nest::prepend(loop, prefetches);
  });
}

}  // namespace tc::codegen
