#include "codegen/vectors/near_gathers.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "codegen/names.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Lane l of an index is `first` + offsets[l].
struct Pattern {
  Expr first;
  std::vector<int64_t> offsets;
};

std::optional<Pattern> find_pattern(const Expr& index) {
  if (ir::any<Load>(index) || ir::any<Call>(index)) return std::nullopt;
  Pattern pattern{simplify(extract_lane(index, 0)), {0}};
  for (int lane = 1; lane < index.type().lanes(); ++lane) {
    auto offset = as_const_int(simplify(extract_lane(index, lane) - pattern.first));
    if (!offset) return std::nullopt;
    pattern.offsets.push_back(*offset);
  }
  return pattern;
}

/// Halide loads neighbours itself, forwards and backwards, and other strides one by one.
bool is_stride(const Expr& stride) {
  auto step = as_const_int(stride);
  return step && (*step > 1 || *step < -1);
}

/// How many of a load's lanes are on where these are the first ones, which constants say; none
/// where that is not known.
std::optional<int> count_first_lanes(const Load* op) {
  const int lanes = op->type.lanes();
  if (is_const_one(op->predicate)) return lanes;
  const auto* less = op->predicate.as<LT>();
  const auto* lane = less ? less->a.as<Ramp>() : nullptr;
  const auto* end = less ? less->b.as<Broadcast>() : nullptr;
  if (!lane || !end || !is_const_one(lane->stride)) return std::nullopt;
  const auto first = as_const_int(lane->base), last = as_const_int(end->value);
  if (!first || !last || *last <= *first) return std::nullopt;
  return static_cast<int>(std::min<int64_t>(lanes, *last - *first));
}

/// As many lanes as `op` has, of which the first `count` are loaded.
Expr load(const Load* op, const Expr& start, int64_t count) {
  const int lanes = op->type.lanes();
  Expr predicate = count == lanes
                       ? const_true(lanes)
                       : Ramp::make(0, 1, lanes) < Broadcast::make(static_cast<int>(count), lanes);
  Expr index = Ramp::make(simplify(start), make_one(start.type()), lanes);
  return Load::make(op->type, op->name, index, op->image, op->param, predicate, ModulusRemainder());
}

}  // namespace

Stmt load_neighbours(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Load* op, ir::Mutator& self) {
    const int lanes = op->type.lanes();
    const auto* ramp = op->index.as<Ramp>();
    const std::optional<int> on = count_first_lanes(op);
    if (lanes < 4 || (ramp && !is_stride(ramp->stride)) || op->index.as<Broadcast>() || !on)
      return self.inside(op);
    std::optional<Pattern> pattern = find_pattern(op->index);
    if (!pattern) return self.inside(op);
    // What other lanes get does not matter.
    std::fill(pattern->offsets.begin() + *on, pattern->offsets.end(), 0);
    // Each load begins at the first place that those before it do not reach.
    std::vector<int64_t> places = pattern->offsets;
    std::sort(places.begin(), places.end());
    std::vector<int64_t> starts;
    std::vector<Expr> loads;
    for (size_t p = 0; p < places.size();) {
      const int64_t start = places[p];
      while (p < places.size() && places[p] - start < lanes) ++p;
      const size_t loaded = loads.size() + 1;
      if (loaded > machine::kNeighbourLoads ||
          loaded * machine::kLanesOfLoad > static_cast<size_t>(lanes))
        return self.inside(op);
      starts.push_back(start);
      // What lies between two places can be loaded.
      const int64_t count = std::min<int64_t>(lanes, places.back() - start + 1);
      loads.push_back(
          load(op, pattern->first + make_const(op->index.type().element_of(), start), count));
    }
    std::vector<int> indices;
    for (int64_t offset : pattern->offsets) {
      const auto from = std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin() - 1;
      indices.push_back(static_cast<int>(from) * lanes + static_cast<int>(offset - starts[from]));
    }
    return Shuffle::make(loads, indices);
  });
}

int find_period(const Nest& body, const std::string& loop) {
  int64_t period = 1;
  auto divide = [&](const Expr& dividend, const Expr& by) {
    const auto divisor = as_const_int(by);
    if (divisor && *divisor > 1 && period <= machine::kMostPeriod && expr_uses_var(dividend, loop))
      period = std::lcm(period, *divisor);
  };
  nest::for_each_read(body, [&](const Load& load) {
    ir::for_each<Div>(load.index, [&](const Div* op) { divide(op->a, op->b); });
    ir::for_each<Mod>(load.index, [&](const Mod* op) { divide(op->a, op->b); });
  });
  return period > machine::kMostPeriod ? 1 : static_cast<int>(period);
}

}  // namespace tc::codegen
