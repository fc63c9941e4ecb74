#include "codegen/tiles/point_vectors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/operations.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Accesses of local arrays at another position of the loop than all others.
Nest place_locals(const Nest& nest, const std::string& loop, const Expr& position,
                  const std::set<std::string>& locals) {
  Nest placed = nest::map_expressions(nest, [&](const Expr& e) {
    return nest::map_loads(e, [&](const Load& load) -> Expr {
      if (!locals.count(load.name)) return &load;
      return ir::make_load(load.type, load.name, substitute(loop, position, load.index));
    });
  });
  return nest::map_computes(placed, [&](const Compute& compute) -> Nest {
    Compute changed = compute;
    if (locals.count(compute.buffer)) changed.index = substitute(loop, position, compute.index);
    return nest::make(std::move(changed));
  });
}

/// Only lanes for which the condition holds touch memory.
Nest predicate_memory(const Nest& nest, const Expr& condition,
                      const std::set<std::string>& locals) {
  Nest loaded = nest::map_expressions(nest, [&](const Expr& e) {
    return nest::map_loads(e, [&](const Load& load) -> Expr {
      if (locals.count(load.name)) return &load;
      return ir::choose_lazily(condition, &load, make_zero(load.type));
    });
  });
  return nest::map_computes(loaded, [&](const Compute& compute) -> Nest {
    Nest stored = nest::make(compute);
    return locals.count(compute.buffer) ? stored
                                        : nest::make(nest::Guard{condition, stored, nullptr});
  });
}

/// Every vector below the node is of this instruction.
Nest wrap_vectors(const Nest& nest, const std::string& instruction) {
  const auto* loop = as<Loop>(nest);
  if (loop && loop->role == Role::Vector) return nest::make(nest::Intrinsic{instruction, nest});
  return nest::map_children(nest,
                            [&](const Nest& child) { return wrap_vectors(child, instruction); });
}

/// Of a body whose loops are unrolled where they say so, by vectors of so many lanes.
int64_t count_functions(const Nest& nest, int lanes) {
  if (const auto* compute = as<Compute>(nest))
    return ir::count_functions(nest::stored_value(*compute));
  int64_t count = 0;
  nest::for_each_child(nest, [&](const Nest& child) { count += count_functions(child, lanes); });
  const auto* loop = as<Loop>(nest);
  if (!loop) return count;
  const auto extent = as_const_int(loop->extent);
  if (loop->role == Role::Unrolled) return count * *extent;
  return loop->role == Role::Vector && extent ? count * divide_up(*extent, lanes) : count;
}

bool accesses(const Nest& nest, const std::set<std::string>& arrays) {
  const std::set<std::string> names = nest::used_buffers(nest);
  return std::any_of(arrays.begin(), arrays.end(),
                     [&](const std::string& array) { return names.count(array) > 0; });
}

/// Points behind one another: unrolled, but for those whose functions would be too much code. Of
/// these a loop unrolls so many that a core finds others to compute while one waits.
/// Accumulators lie in registers where all loops around their accesses are unrolled.
Nest make_points(const std::string& name, int64_t extent, const Nest& body,
                 const std::set<std::string>& accumulators) {
  // Its vectors are cut.
  const int64_t functions = count_functions(body, machine::kMostLanes);
  const auto unrolled = [&](int64_t count, const Nest& points) {
    return nest::make_loop(name, 0, static_cast<int>(count), Role::Unrolled, points);
  };
  if (functions * extent <= machine::kUnrolledFunctions || accesses(body, accumulators))
    return unrolled(extent, body);
  const int64_t steps = divide_up(functions * extent, machine::kFunctionsTogether);
  const int64_t together = std::max<int64_t>(1, extent / steps);
  const std::string step = name + ".s";
  const auto from = [&](const Expr& first) {
    return nest::substitute(name, first + ir::make_variable(name), body);
  };
  std::vector<Nest> parts = {nest::make_loop(
      step, 0, static_cast<int>(extent / together), Role::Serial,
      unrolled(together, from(ir::make_variable(step) * static_cast<int>(together))))};
  if (const int64_t rest = extent % together)
    parts.push_back(unrolled(rest, from(static_cast<int>(extent - rest))));
  return nest::make_sequence(parts);
}

Nest make_vector(const std::string& lane, int lanes, Nest body) {
  return nest::make_loop(lane, 0, lanes, Role::Vector, std::move(body));
}

}  // namespace

bool has_many_functions(const Nest& points, int lanes) {
  return count_functions(points, lanes) > machine::kUnrolledFunctions;
}

Nest cut_point_vectors(const Nest& nest, int lanes, const std::set<std::string>& locals,
                       const std::set<std::string>& accumulators, bool repeatable) {
  const auto* intrinsic = as<nest::Intrinsic>(nest);
  const auto* vector = intrinsic ? as<Loop>(intrinsic->body) : nullptr;
  if (vector && vector->role == Role::Vector) {
    const Nest cut = cut_point_vectors(intrinsic->body, lanes, locals, accumulators, repeatable);
    if (lanes > 1) return wrap_vectors(cut, intrinsic->instruction);
    // One point.
    return nest::make(nest::Intrinsic{intrinsic->instruction,
                                      nest::substitute(vector->name, vector->min, vector->body)});
  }
  const auto* loop = as<Loop>(nest);
  if (!loop || !loop->point || loop->role != Role::Vector || lanes == 1) {
    Nest cut = nest::map_children(nest, [&](const Nest& child) {
      return cut_point_vectors(child, lanes, locals, accumulators, repeatable);
    });
    loop = as<Loop>(cut);
    if (!loop || !loop->point) return cut;
    return make_points(loop->name, *as_const_int(loop->extent), loop->body, accumulators);
  }
  const int extent = static_cast<int>(*as_const_int(loop->extent));
  const int full = extent / lanes, rest = extent % lanes;
  const std::string whole = loop->name + ".v", lane = loop->name + ".l", tail = loop->name + ".t";
  std::vector<Nest> parts;
  if (full > 0) {
    const Expr value = ir::make_variable(whole) * lanes + ir::make_variable(lane);
    parts.push_back(make_points(
        whole, full, make_vector(lane, lanes, nest::substitute(loop->name, value, loop->body)),
        accumulators));
  }
  if (rest > 0) {
    const Expr x = ir::make_variable(tail), position = x + full * lanes;
    const bool repeat = repeatable && full > 0;
    Nest body = place_locals(loop->body, loop->name, position, locals);
    body = nest::substitute(loop->name, repeat ? x + (extent - lanes) : position, body);
    if (!repeat) body = predicate_memory(body, x < rest, locals);
    parts.push_back(make_vector(tail, lanes, body));
  }
  return nest::make_sequence(parts);
}

}  // namespace tc::codegen
