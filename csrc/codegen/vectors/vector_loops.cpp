#include "codegen/vectors/vector_loops.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "codegen/names.h"
#include "codegen/vectors/near_gathers.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Of what the lanes of a loop access.
struct Lanes {
  int bits = 0;           ///< of the widest element
  bool scatters = false;  ///< whether data says where something is stored
};

/// What an expression of the body reads. Of what says where, elements that are the same for all
/// lanes are none of theirs.
void add_loads(const Expr& e, const std::string& loop, bool says_where, Lanes& lanes) {
  ir::walk(e, [&](const Expr& part) {
    const auto* load = part.as<Load>();
    if (!load) return true;
    if (!says_where || expr_uses_var(load->index, loop))
      lanes.bits = std::max(lanes.bits, load->type.bits());
    add_loads(load->index, loop, true, lanes);
    return false;
  });
}

Lanes lanes_of(const Loop& loop) {
  Lanes lanes;
  std::set<const Expr*> indices;
  nest::for_each_compute(loop.body, [&](const Compute& compute) {
    lanes.bits = std::max(lanes.bits, memory_type(compute.type).bits());
    lanes.scatters = lanes.scatters || ir::has_load(compute.index);
    indices.insert(&compute.index);
  });
  nest::for_each_expression(
      loop.body, [&](const Expr& e) { add_loads(e, loop.name, indices.count(&e) > 0, lanes); });
  return lanes;
}

/// The first choice between things to load that a loop, and what lies in it, does not decide;
/// undefined where there is none.
Expr find_choice(const Loop& loop) {
  Scope<> inside;
  inside.push(loop.name);
  nest::for_each_node(loop.body, [&](const Nest& node) {
    if (const auto* inner = as<Loop>(node)) inside.push(inner->name);
    if (const auto* binding = as<nest::Binding>(node)) inside.push(binding->name);
  });
  Expr found;
  nest::for_each_expression(loop.body, [&](const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      // The names of lets are not known outside.
      if (found.defined() || part.as<Let>()) return false;
      const auto* choice = part.as<Select>();
      if (choice && choice->condition.type().is_scalar() &&
          !expr_uses_vars(choice->condition, inside) && !ir::has_load(choice->condition) &&
          is_pure(choice->condition) && ir::has_load(choice->true_value) &&
          ir::has_load(choice->false_value))
        found = choice->condition;
      return !found.defined();
    });
  });
  return found;
}

/// Choices by a condition, decided.
Expr decide(const Expr& e, const Expr& condition, bool value) {
  return ir::rewrite(e, [&](const Expr& part) {
    const auto* choice = part.as<Select>();
    if (!choice || !equal(choice->condition, condition)) return Expr();
    return decide(value ? choice->true_value : choice->false_value, condition, value);
  });
}

/// The first `count` of a vector of iterations.
Nest make_tail(const Loop& loop, const Expr& first, const Expr& count, int lanes) {
  std::string lane = loop.name + ".t";
  Expr x = ir::make_variable(lane);
  Nest body = nest::substitute(loop.name, first + x, loop.body);
  return nest::make_loop(lane, 0, lanes, Role::Vector,
                         nest::make(nest::Guard{x < count, body, nullptr}));
}

/// The last iterations of a row at a place that data says, as vectors of 8, 4, 2 and 1: the next
/// row may be the same one, or begin where this one ends, and a load waits until a masked store
/// that it may overlap has reached the cache.
Nest make_halves(const Loop& loop, const Expr& first, int64_t count) {
  std::vector<Nest> parts;
  int64_t done = 0;
  for (int lanes = machine::kMostLanes; lanes > 0; lanes /= 2) {
    if (!(count & lanes)) continue;
    const std::string lane = loop.name + ".h";
    const Expr begin = first + static_cast<int>(done);
    done += lanes;
    if (lanes == 1)
      parts.push_back(nest::substitute(loop.name, begin, loop.body));
    else
      parts.push_back(
          nest::make_loop(lane, 0, lanes, Role::Vector,
                          nest::substitute(loop.name, begin + ir::make_variable(lane), loop.body)));
  }
  return nest::make_sequence(parts);
}

/// Where quotients and remainders give the places of loads, as many vectors in turn as their
/// pattern takes: in each of them it is known. Null where there is none, or where its beginning is
/// not known.
Nest cut_by_pattern(const Loop& loop, int lanes) {
  const int period = find_period(loop.body, loop.name);
  auto extent = as_const_int(loop.extent);
  if (period == 1 || !extent) return nullptr;
  const int step = std::lcm(lanes, period);
  const ModulusRemainder first = modulus_remainder(loop.min);
  if (first.modulus % period != 0 && !is_const(loop.min)) return nullptr;
  auto vectors = [&](const Expr& begin, int64_t count) {
    std::vector<Nest> parts;
    for (int64_t v = 0; v < count; ++v) {
      std::string lane = loop.name + ".l";
      Expr value = begin + (static_cast<int>(v) * lanes + ir::make_variable(lane));
      parts.push_back(nest::make_loop(lane, 0, lanes, Role::Vector,
                                      nest::substitute(loop.name, value, loop.body)));
    }
    return parts;
  };
  const int full = static_cast<int>(*extent / step), rest = static_cast<int>(*extent % step);
  std::vector<Nest> parts;
  if (full > 0) {
    std::string turn = loop.name + ".v";
    Nest body =
        nest::make_sequence(vectors(loop.min + ir::make_variable(turn) * step, step / lanes));
    parts.push_back(full == 1 ? nest::substitute(turn, Expr(0), body)
                              : nest::make_loop(turn, 0, full, Role::Serial, body));
  }
  for (const Nest& part : vectors(loop.min + full * step, rest / lanes)) parts.push_back(part);
  if (rest % lanes != 0)
    parts.push_back(
        make_tail(loop, loop.min + (full * step + rest / lanes * lanes), rest % lanes, lanes));
  return nest::make_sequence(parts);
}

/// `choices` are decided around the loop.
Nest cut(const Loop& loop, int vector_bits, int choices) {
  const Expr condition = choices < machine::kLoopChoices ? find_choice(loop) : Expr();
  if (condition.defined()) {
    // A loop for each side of a choice: what is not chosen need not be loaded.
    auto side = [&](bool value) {
      Loop decided = loop;
      decided.body = nest::map_expressions(
          loop.body, [&](const Expr& e) { return decide(e, condition, value); });
      return cut(decided, vector_bits, choices + 1);
    };
    const Nest yes = side(true), no = side(false);
    return nest::make(nest::Guard{condition, yes, no});
  }
  const Lanes accessed = lanes_of(loop);
  int lanes = std::clamp(vector_bits / std::max(8, accessed.bits), 1, machine::kMostLanes);
  auto constant = as_const_int(loop.extent);
  while (constant && *constant <= lanes / 2) lanes /= 2;
  if (lanes == 1) return nest::make_serial(loop);

  if (Nest patterned = cut_by_pattern(loop, lanes)) return patterned;
  Expr full = simplify(loop.extent / lanes), rest = simplify(loop.extent % lanes);
  std::vector<Nest> parts;
  if (!is_const_zero(full)) {
    std::string vector = loop.name + ".v", lane = loop.name + ".l";
    Expr value = loop.min + ir::make_variable(vector) * lanes + ir::make_variable(lane);
    Nest body = nest::make_loop(lane, 0, lanes, Role::Vector,
                                nest::substitute(loop.name, value, loop.body));
    auto vectors = as_const_int(full);
    const bool few = vectors && *vectors <= machine::kUnrolledVectors;
    parts.push_back(is_const_one(full)
                        ? nest::substitute(vector, Expr(0), body)
                        : nest::make_loop(vector, 0, full,
                                          few && accessed.scatters ? Role::Unrolled : Role::Serial,
                                          body));
  }
  if (!is_const_zero(rest)) {
    const auto count = as_const_int(rest);
    Nest tail = accessed.scatters && count ? make_halves(loop, loop.min + full * lanes, *count)
                                           : make_tail(loop, loop.min + full * lanes, rest, lanes);
    parts.push_back(is_const(rest) ? tail : nest::make(nest::Guard{rest > 0, tail, nullptr}));
  }
  return nest::make_sequence(parts);
}

}  // namespace

Nest cut_vector_loops(const Nest& nest, int vector_bits) {
  const auto* loop = as<Loop>(nest);
  if (loop && loop->role == Role::Vector) return cut(*loop, vector_bits, 0);
  // Its vector has the lanes of an instruction.
  if (nest::as<nest::Intrinsic>(nest)) return nest;
  return nest::map_children(
      nest, [&](const Nest& child) { return cut_vector_loops(child, vector_bits); });
}

}  // namespace tc::codegen
