#include "codegen/tiles/unroll_reductions.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"
#include "ir/program.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// How far an index moves with a loop; 0 where that varies.
int64_t step_of(const Expr& index, const std::string& loop) {
  return as_const_int(simplify(substitute(loop, Expr(1), index) - substitute(loop, Expr(0), index)))
      .value_or(0);
}

/// Whether iterations of a loop load the same elements, of more than `free` that one of them loads
/// for the points inside.
bool overlaps(const Load& load, const Loop& loop, int64_t iterations,
              const std::vector<const Loop*>& points, int64_t free) {
  const int64_t step = step_of(load.index, loop.name);
  int64_t values = 1;
  bool overlap = false;
  for (const Loop* point : points) {
    const int64_t along = step_of(load.index, point->name);
    if (along == 0) continue;
    if (point->role == Role::Vector) return false;
    const int64_t extent = as_const_int(point->extent).value_or(1);
    values *= extent;
    for (int64_t later = 1; later < iterations; ++later)
      overlap = overlap || (step * later % along == 0 && std::abs(step * later / along) < extent);
  }
  return step != 0 && overlap && values > free;
}

/// Hides from LLVM that iterations of the loop load the same elements: it would keep all of them in
/// registers for the iterations to come, and move accumulators to memory instead. `free`: registers
/// that neither accumulators nor vectors of operands need.
Nest separate_windows(const Loop& loop, int64_t iterations, int64_t free) {
  std::vector<const Loop*> points;
  nest::for_each_node(loop.body, [&](const Nest& node) {
    if (const auto* point = as<Loop>(node); point && point->point) points.push_back(point);
  });
  const Expr iteration = ir::make_variable(loop.name);
  auto change = [&](const Load& load) -> Expr {
    return overlaps(load, loop, iterations, points, free) ? separate(load, iteration) : Expr(&load);
  };
  return nest::map_expressions(loop.body,
                               [&](const Expr& e) { return nest::map_loads(e, change); });
}

/// Vector operations of a value, as far as unrolling is concerned: an accumulation is one.
int64_t operations_of(const Expr& value) {
  // Addresses that data says, several of which wait at a time, would take the accumulators'
  // registers.
  if (ir::any<Load>(value, [](const Load* load) { return ir::has_load(load->index); }))
    return machine::kUnrolledOperations + 1;
  int64_t functions = 0, others = 0;
  std::set<const Halide::Internal::IRNode*> seen;
  ir::walk(value, [&](const Expr& part) {
    if (part.as<Load>() || !seen.insert(part.get()).second) return false;
    // Conditions and places of indices: constants of every iteration, or the same for all of them.
    if (!part.type().is_float() && !ir::has_load(part)) return false;
    const auto* call = part.as<Call>();
    const bool function = call && !ir::math_name(call).empty();
    const bool free = part.as<Halide::Internal::Cast>() || part.as<Variable>() || is_const(part);
    functions += function;
    others += !function && !free;
    return true;
  });
  const int64_t further = std::max<int64_t>(others - 2, 0);  // than a multiply-add
  return 1 + machine::kUnrolledFunction * functions + further / machine::kUnrolledArithmetic;
}

/// Loads of single elements that a vector needs: of fewer than 32 bits no instruction gathers them.
/// What lies a few apart is loaded together and shuffled.
int64_t single_loads(const Loop& vector, int lanes) {
  int64_t loads = 0;
  nest::for_each_load(vector.body, [&](const Load& load) {
    if (load.type.bits() >= 32) return;
    const int64_t step = std::abs(step_of(load.index, vector.name));
    const bool near = step <= static_cast<int64_t>(machine::kNeighbourLoads);
    if (!near) loads += lanes;
  });
  return loads;
}

/// What is known of the part visited last.
struct Effort {
  int64_t operations = 0;    ///< all its loops unrolled
  int64_t accumulators = 0;  ///< in vectors
  int64_t vectors = 1;       ///< of one row of them
  int64_t unrolled = 0;      ///< operations of all loops so far that are
};

/// The processor mispredicts the ends of short loops.
Nest unroll(const Nest& nest, int lanes, int registers, Effort& effort) {
  auto visit = [&](const Nest& child) { return unroll(child, lanes, registers, effort); };
  if (const auto* compute = as<Compute>(nest)) {
    effort.operations = operations_of(nest::stored_value(*compute));
    return nest;
  }
  if (as<nest::Sequence>(nest)) {
    int64_t operations = 0;
    Nest parts = nest::map_children(nest, [&](const Nest& part) {
      Nest made = visit(part);
      operations += effort.operations;
      return made;
    });
    effort.operations = operations;
    return parts;
  }
  if (as<nest::Intrinsic>(nest)) {
    // An operation for every vector, whatever it adds up.
    const auto* vector = as<Loop>(nest::as<nest::Intrinsic>(nest)->body);
    const bool one = !vector || vector->role != Role::Vector;
    effort.vectors = one ? 1 : (as_const_int(vector->extent).value_or(1) + lanes - 1) / lanes;
    effort.operations = effort.accumulators = effort.vectors;
    if (!one) effort.operations *= 1 + single_loads(*vector, lanes);
    return nest;
  }
  if (const auto* loop = as<Loop>(nest); loop && loop->role == Role::Vector)
    effort.vectors = (as_const_int(loop->extent).value_or(1) + lanes - 1) / lanes;
  const int64_t unrolled = effort.unrolled;
  const Nest same = nest::map_children(nest, visit);
  const auto* loop = as<Loop>(same);
  if (!loop) return same;
  const int64_t extent =
      loop->role == Role::Vector
          ? effort.vectors
          : as_const_int(loop->extent).value_or(machine::kUnrolledOperations + 1);
  if (loop->point) effort.accumulators = effort.operations * extent;
  if (loop->role == Role::Vector) effort.operations += single_loads(*loop, lanes);
  effort.operations = std::min(machine::kUnrolledOperations + 1, effort.operations * extent);
  if (loop->point || effort.operations > machine::kUnrolledOperations ||
      unrolled + effort.operations > machine::kUnrolledBody)
    return same;
  effort.unrolled = unrolled + effort.operations;
  return nest::make_loop(
      loop->name, loop->min, loop->extent, Role::Unrolled,
      separate_windows(*loop, extent, registers - effort.accumulators - effort.vectors));
}

}  // namespace

Nest unroll_short_reductions(const Nest& body, int lanes, int registers) {
  Effort effort;
  return unroll(body, lanes, registers, effort);
}

}  // namespace tc::codegen
