#include "codegen/workarounds/nested_ramps.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// How far behind `from` each lane of an index lies; none where that is not constant.
std::optional<std::vector<int64_t>> distances(const Expr& index, const Expr& from) {
  std::vector<int64_t> result;
  for (int lane = 0; lane < index.type().lanes(); ++lane) {
    const Expr distance = extract_lane(index, lane) - from;
    const auto constant = as_const_int(simplify(common_subexpression_elimination(distance)));
    if (!constant) return std::nullopt;
    result.push_back(*constant);
  }
  return result;
}

Expr load(const Load* op, const Expr& index) {
  return Load::make(op->type.with_lanes(index.type().lanes()), op->name, index, op->image,
                    op->param, const_true(index.type().lanes()), ModulusRemainder());
}

/// The load as Halide makes it, from the least lane on; undefined where Halide's begins there, or
/// where it leaves the lanes as they are.
Expr load_from_least_lane(const Load* op) {
  const int lanes = op->type.lanes();
  const auto* ramp = op->index.as<Ramp>();
  if (lanes == 1 || !is_const_one(op->predicate) || (ramp && ramp->lanes == lanes)) return Expr();
  const Interval bounds = bounds_of_expr_in_scope(op->index, Scope<Interval>::empty_scope());
  if (!bounds.has_lower_bound()) return Expr();
  std::optional<std::vector<int64_t>> places = distances(op->index, bounds.min);
  if (!places) return Expr();
  const int64_t least = *std::min_element(places->begin(), places->end());
  if (least == 0) return Expr();
  int64_t stride = 0;
  for (int64_t& place : *places) stride = std::gcd(stride, place -= least);
  const Type type = op->index.type().element_of();
  const Expr first = simplify(bounds.min + make_const(type, least));
  if (stride == 0) return Broadcast::make(load(op, first), lanes);
  std::vector<int> permutation;
  for (int64_t place : *places) permutation.push_back(static_cast<int>(place / stride));
  const int extent = *std::max_element(permutation.begin(), permutation.end()) + 1;
  // Halide loads no more elements for each lane; from its bound on there are more.
  if (extent >= 4 * lanes) return Expr();
  return Shuffle::make({load(op, Ramp::make(first, make_const(type, stride), extent))},
                       permutation);
}

}  // namespace

Stmt flatten_ramps(const Stmt& stmt) {
  const Stmt exact = ir::mutate(stmt, [](const Load* op, ir::Mutator& self) {
    const Expr load = load_from_least_lane(op);
    return load.defined() ? load : self.inside(op);
  });
  return flatten_nested_ramps(exact);
}

}  // namespace tc::codegen
