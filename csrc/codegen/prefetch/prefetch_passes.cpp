#include "codegen/prefetch/prefetch_passes.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "base/numbers.h"
#include "codegen/names.h"
#include "codegen/prefetch/walks.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// From the first to behind the last element that a loop reads; nothing where it does not read a
/// row from end to end. Several vectors that an iteration reads lie between.
std::optional<Footprint> find_row(const Read& read) {
  Footprint row(read);
  for (auto loop = read.inside.rbegin(); loop != read.inside.rend(); ++loop) {
    auto walk = row.along(*loop);
    if (!walk || walk->step < row.width || walk->step > machine::kMostSums * row.width)
      return std::nullopt;
    row.widen(*loop, *walk);
  }
  return row;
}

/// The rows that a loop walks through, each once.
std::vector<Footprint> find_rows(const Nest& loop, const std::set<std::string>& buffers) {
  std::vector<Footprint> rows;
  for (const Read& read : find_reads(loop)) {
    auto row = buffers.count(read.buffer) ? find_row(read) : std::nullopt;
    auto overlaps = [&](const Footprint& known) {
      auto distance = as_const_int(simplify(row->start - known.start));
      return known.buffer == row->buffer && distance && std::abs(*distance) < row->width;
    };
    if (row && std::none_of(rows.begin(), rows.end(), overlaps)) rows.push_back(*row);
  }
  return rows;
}

/// The body with those of its serial loops changed that run one after the other.
Nest map_passes(const Nest& body, const std::function<Nest(const Nest&)>& change) {
  const auto* loop = as<Loop>(body);
  if (loop) return loop->role == Role::Serial ? change(body) : body;
  auto inside = [&](const Nest& child) { return map_passes(child, change); };
  if (as<nest::Sequence>(body) || as<nest::Binding>(body) || as<nest::Buffer>(body))
    return nest::map_children(body, inside);
  // Of the two forms of a row (codegen/vectors/stream_rows), the first.
  const auto* guard = as<nest::Guard>(body);
  if (!guard || !guard->condition.as<Variable>()) return body;
  return nest::make(nest::Guard{guard->condition, inside(guard->then), guard->otherwise});
}

/// What an iteration of `second`, a loop over a row, prefetches of the row that the loop over
/// `rows` reads next. What is beyond the last row is prefetched as well, which no program notices:
/// as a rule another task reads it next.
void prefetch_row(const Footprint& row, const std::string& rows, const Loop& second,
                  const CpuMachine& machine, std::vector<Nest>& prefetches) {
  auto step = row.step(rows);
  auto extent = as_const_int(second.extent);
  // Short rows lie in one page with the next ones; long ones would push out each other.
  if (!step || *step < row.width || !extent || row.bytes() < machine.page_bytes / 8 ||
      row.bytes() > machine.first_cache_bytes / 2)
    return;
  const int64_t each = divide_up(row.lines(), *extent);
  if (each > machine.lines_at_once()) return;
  Expr done = wide(ir::make_variable(second.name) - second.min);
  Expr next = wide(row.start) + done * wide(each * row.line());
  for (int64_t l = 0; l < each; ++l)
    prefetches.push_back(row.prefetch(next + wide(*step + l * row.line())));
}

}  // namespace

Nest prefetch_passes(const Nest& nest, const std::set<std::string>& buffers,
                     const CpuMachine& machine) {
  if (buffers.empty()) return nest;
  auto inside = [&](const Nest& child) { return prefetch_passes(child, buffers, machine); };
  const auto* rows = as<Loop>(nest);
  if (!rows || rows->role != Role::Serial) return nest::map_children(nest, inside);
  std::vector<Nest> passes;
  map_passes(rows->body, [&](const Nest& pass) { return passes.emplace_back(pass); });
  std::vector<Nest> prefetches;
  if (passes.size() > 1)
    for (const Footprint& row : find_rows(passes[0], buffers))
      prefetch_row(row, rows->name, *as<Loop>(passes[1]), machine, prefetches);
  if (prefetches.empty()) return nest::map_children(nest, inside);
  size_t number = 0;
  Nest body = map_passes(rows->body, [&](const Nest& pass) {
    return number++ == 1 ? nest::prepend(pass, prefetches) : pass;
  });
  return nest::map_children(nest::with_body(*rows, body), inside);
}

}  // namespace tc::codegen
