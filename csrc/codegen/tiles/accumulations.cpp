#include "codegen/tiles/accumulations.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/math/float_bits.h"
#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

constexpr char kAccumulate[] = "tc.accumulate";
constexpr char kHidden[] = "tc.hidden";

using Loops = std::vector<const Loop*>;

std::optional<int64_t> constant(const Expr& e) { return as_const_int(reveal(e)); }

Expr at(const Expr& index, const Loop* loop, int iteration) {
  return substitute(loop->name, Expr(iteration), index);
}

/// Whether the steps of two iterations, which differ in a loop before `k` or do so later, lead over
/// the distance.
bool meet(const Loops& loops, const std::vector<int64_t>& steps, size_t k, int64_t distance,
          bool differ) {
  if (k == loops.size()) return differ && distance == 0;
  int64_t extent = as_const_int(loops[k]->extent).value_or(1);
  for (int64_t apart = 1 - extent; apart < extent; ++apart)
    if (meet(loops, steps, k + 1, distance + apart * steps[k], differ || apart != 0)) return true;
  return false;
}

/// Whether two iterations may reach one place by these indices.
bool meet(const Loops& loops, const Expr& a, const Expr& b) {
  std::vector<int64_t> steps;
  Expr first = a, second = b;
  for (const Loop* loop : loops) {
    auto step = constant(at(a, loop, 1) - at(a, loop, 0));
    if (!step || step != constant(at(b, loop, 1) - at(b, loop, 0))) return true;
    steps.push_back(*step);
    first = at(first, loop, 0);
    second = at(second, loop, 0);
  }
  auto distance = constant(first - second);
  return !distance || meet(loops, steps, 0, *distance, false);
}

/// Whether two iterations of unrolled loops may multiply by the same element. Then x * a + x * b
/// would be x * (a + b) to LLVM, which differs for infinite x, a or b.
bool share_factors(const Expr& product, const Loops& loops) {
  std::vector<const Load*> loads;
  nest::for_each_load(product, [&](const Load& load) { loads.push_back(&load); });
  for (const Load* a : loads)
    for (const Load* b : loads)
      if (a->name == b->name && meet(loops, a->index, b->index)) return true;
  return false;
}

/// Loads of every iteration become its own.
Expr separate_loads(const Expr& e, const Loops& loops) {
  Expr iteration = 0;
  for (const Loop* loop : loops)
    iteration = iteration * loop->extent + ir::make_variable(loop->name);
  return nest::map_loads(e, [&](const Load& load) { return separate(load, iteration); });
}

bool is_unrolled_reduction(const Loop& loop) { return loop.role == Role::Unrolled && !loop.point; }

/// Says which sums in a loop contract; `unrolled` are the reductions around them.
Nest contract(const Nest& nest, const std::set<std::string>& locals, Loops unrolled) {
  if (const auto* compute = as<Compute>(nest)) {
    const auto* product = compute->value.as<Mul>();
    if (compute->reduction != ir::Reduction::Sum || !product || !locals.count(compute->buffer) ||
        !compute->type.is_float() || compute->type.bits() < 32 || is_const(product->a) ||
        is_const(product->b))
      return nest;
    Compute sum = *compute;
    sum.contracts = true;
    if (share_factors(sum.value, unrolled))
      sum.value =
          Mul::make(separate_loads(product->a, unrolled), separate_loads(product->b, unrolled));
    return nest::make(std::move(sum));
  }
  const auto* loop = as<Loop>(nest);
  if (loop && is_unrolled_reduction(*loop)) unrolled.push_back(loop);
  return nest::map_children(nest,
                            [&](const Nest& child) { return contract(child, locals, unrolled); });
}

Nest hide(const std::string& local, ir::Type type, int64_t elements) {
  const std::string name = concat("point0.hidden.", local);
  const Expr lane = ir::make_variable(name);
  const Compute hidden{
      local, type, lane,
      Call::make(type, kHidden, {ir::make_load(type, local, lane)}, Call::PureExtern)};
  return nest::make(
      Loop{name, 0, static_cast<int>(elements), Role::Vector, size_t{0}, nest::make(hidden)});
}

/// A conversion from floats to floats; null for anything else.
const Cast* as_rounding(const Expr& e) {
  const auto* cast = e.as<Cast>();
  return cast && cast->type.is_float() && cast->value.type().is_float() ? cast : nullptr;
}

/// A factor that is a number of a narrower type: what the sum may assume of it, it may assume of
/// its conversion too. Not so of conversions further inside, whose results may be tested for NaN.
Expr lower_factor(const Expr& e, ir::Mutator& self) {
  if (const auto* broadcast = e.as<Broadcast>())
    return Broadcast::make(lower_factor(broadcast->value, self), broadcast->lanes);
  // An unrolled iterator. LLVM takes 0 * x for 0.
  if (is_const(e)) return hidden(e);
  const Cast* cast = as_rounding(e);
  return cast ? Cast::make(cast->type, self.mutate(cast->value)) : self.mutate(e);
}

}  // namespace

Nest mark_accumulations(const Nest& nest, const std::set<std::string>& locals,
                        const std::set<std::string>& read, int64_t elements) {
  const auto* loop = as<Loop>(nest);
  if (!loop || (loop->role != Role::Serial && !is_unrolled_reduction(*loop)))
    return nest::map_children(
        nest, [&](const Nest& child) { return mark_accumulations(child, locals, read, elements); });
  std::vector<Nest> parts{contract(nest, locals, {})};
  std::map<std::string, ir::Type> assumed;  // to be numbers
  nest::for_each_compute(parts[0], [&](const Compute& compute) {
    if (compute.contracts && read.count(compute.buffer))
      assumed.emplace(compute.buffer, compute.type);
  });
  for (const auto& [local, type] : assumed) parts.push_back(hide(local, type, elements));
  return nest::make_sequence(parts);
}

Expr make_accumulation(const Expr& sum, const Expr& product) {
  const auto* factors = product.as<Mul>();
  TC_INTERNAL_CHECK(factors, "a sum of ", product, " contracts");
  return Call::make(sum.type(), kAccumulate, {sum, factors->a, factors->b}, Call::PureExtern);
}

bool has_accumulations(const Stmt& stmt) {
  return ir::any<Call>(stmt, [](const Call* op) { return op->name == kAccumulate; });
}

Stmt lower_accumulations(const Stmt& stmt) {
  return ir::mutate(
      stmt,
      [](const Call* op, ir::Mutator& self) -> Expr {
        if (op->name == kAccumulate)
          return Add::make(
              Mul::make(lower_factor(op->args[1], self), lower_factor(op->args[2], self)),
              self.mutate(op->args[0]));
        if (op->is_intrinsic(Call::abs) && op->type.is_float())
          return clear_sign(self.mutate(op->args[0]));
        return op->name == kHidden ? hidden(self.mutate(op->args[0])) : self.inside(op);
      },
      [](const Cast* op, ir::Mutator& self) {
        Expr converted = self.inside(op);
        return as_rounding(op) ? hidden(converted) : converted;
      });
}

}  // namespace tc::codegen
