#include "codegen/vectors/vector_reductions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "codegen/tiles/merge_reductions.h"
#include "codegen/workarounds/byte_sums.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/expressions/choices.h"
#include "ir/loops.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

using nest::Guard;

// Elements that one iteration loads one by one, since they are no neighbours. No model knows that
// from 250 addresses in a loop on, those of the rest behind it among them, LLVM gives up to tell
// sets of them apart and compares all pairs: 12 s of compilation instead of 0.1 s.
constexpr int kGathered = 96;

/// One compute of a loop body with the guards around it.
struct Part {
  const Compute* compute = nullptr;
  Expr guard;  ///< undefined: always
  // If it reduces into an element that is the same in all iterations:
  bool accumulates = false;
  ir::Reduction reduction = ir::Reduction::None;  ///< of partial results
  Expr value;                                     ///< the term, of type `accumulator`
  Type accumulator;                               ///< the type of partial results
  std::string partial;                            ///< the local array of partial results
};

Expr both(const Expr& a, const Expr& b) { return a.defined() ? a && b : b; }

/// The loop body as a list of computes; false when it has something else.
bool collect(const Nest& nest, const Expr& guard, std::vector<Part>& parts) {
  if (const auto* sequence = as<nest::Sequence>(nest))
    return std::all_of(sequence->parts.begin(), sequence->parts.end(),
                       [&](const Nest& part) { return collect(part, guard, parts); });
  if (const auto* branch = as<Guard>(nest))
    return !branch->otherwise && collect(branch->then, both(guard, branch->condition), parts);
  if (const auto* compute = as<Compute>(nest)) {
    Part found;
    found.compute = compute;
    found.guard = guard;
    parts.push_back(found);
    return true;
  }
  return false;
}

/// What the body of a loop reads.
struct Reads {
  std::map<std::string, int> loads;  ///< of every buffer
  int gathers = 0;                   ///< loads of elements that are no neighbours along the loop
  int narrowest = 64;                ///< bits of an element
  bool functions = false;
};

Reads reads_of(const Loop& loop) {
  Reads reads;
  nest::for_each_read(loop.body, [&](const Load& load) {
    ++reads.loads[load.name];
    reads.narrowest = std::min(reads.narrowest, load.type.bits());
    const auto step = ir::step_along(load.index, loop.name);
    if (step != 0 && step != 1) ++reads.gathers;
  });
  auto is_function = [](const Call* op) { return !ir::math_name(op).empty(); };
  nest::for_each_expression(loop.body, [&](const Expr& e) {
    reads.functions = reads.functions || ir::any<Call>(e, is_function);
  });
  return reads;
}

/// How terms add up in partial results: truth values as bytes, narrow floats as wider ones.
void accumulate(Part& part) {
  const Compute& compute = *part.compute;
  part.accumulates = true;
  part.value = nest::to_memory(compute.value);
  part.accumulator = memory_type(compute.type);
  part.reduction = compute.reduction;
  // Whether one of them holds, which sums say too, or all of them.
  if (compute.type.is_bool())
    part.reduction = is_const_zero(ir::identity(compute.reduction, compute.type))
                         ? ir::Reduction::Max
                         : ir::Reduction::Min;
  if (!compute.type.is_float() || compute.type.bits() >= 32) return;
  part.accumulator = Halide::Float(32);
  part.value = Halide::cast(part.accumulator, part.value);
}

/// The partial result that changes nothing.
Expr neutral(const Part& part) {
  if (part.compute->type.is_bool())
    return make_const(part.accumulator, part.reduction == ir::Reduction::Max ? 0 : 1);
  const Expr identity = ir::identity(part.reduction, part.accumulator);
  return part.reduction == ir::Reduction::Sum ? begin_byte_sum(identity, part.value) : identity;
}

/// A partial result as a term of the result.
Expr term_of(const Part& part, const Expr& partial) {
  return part.compute->type.is_bool() ? nest::from_memory(partial, part.compute->type)
                                      : Halide::cast(part.compute->type, partial);
}

/// Redirects what is reduced in a vector loop to partial results.
class PartialResults {
 public:
  PartialResults(const Loop& vector, const Reads& reads, std::vector<Part> parts, int vector_bits,
                 const CpuMachine& machine)
      : vector_(vector), parts_(std::move(parts)) {
    int bits = std::max(8, nest::widest_element(vector.body));
    int accumulating = 0;
    for (const Part& part : parts_) {
      if (!part.accumulates) {
        if (reads.loads.count(part.compute->buffer)) repeatable_ = false;
        continue;
      }
      ++accumulating;
      bits = std::max(bits, part.accumulator.bits());
    }
    lanes_ = std::clamp(vector_bits / bits, 1, machine::kMostLanes);
    extent_ = as_const_int(simplify(vector.extent));
    const bool predicable = extent_ && may_predicate(reads, vector_bits);
    if (extent_)
      while ((predicable ? lanes_ / 2 >= *extent_ : lanes_ > *extent_) && lanes_ > 1) lanes_ /= 2;
    predicated_ = predicable && *extent_ % lanes_ != 0;
    while (lanes_ > 8 && lanes_ * reads.gathers > kGathered / 2) lanes_ /= 2;
    // Bodies with functions like exp are bound by those; copies would only make the code longer.
    int wanted = reads.functions ? 1 : machine.sums_in_flight() / std::max(1, accumulating);
    if (reads.gathers) wanted = std::min(wanted, kGathered / (lanes_ * reads.gathers));
    // Two at least: LLVM adds up the halves of a single vector separately, inside the loop, when it
    // sees them used separately after it.
    int most = std::max(2, machine::kMostSums / static_cast<int>(parts_.size()));
    copies_ = std::clamp(wanted, 2, most);
    // What data says how long it is, is often short: each copy takes instructions around the loop.
    if (ir::has_load(vector.extent)) copies_ = 2;
    // Without a predicate, LLVM was not seen to do so.
    const int least = predicated_ ? 2 : 1;
    if (extent_) copies_ = static_cast<int>(std::clamp<int64_t>(*extent_ / lanes_, least, copies_));
  }

  int lanes() const { return lanes_; }

  /// Whether an extent that data says is too short for vectors to pay: with two terms for each
  /// partial result, to add up these takes as long as the terms.
  Expr is_short() const { return vector_.extent < 2 * copies_ * lanes_; }

  /// The loop one iteration after the other, with a partial result of one element.
  Nest serial() const {
    std::vector<Nest> body;
    for (const Part& part : parts_) {
      Nest own = part.accumulates ? in_partial(part, 0, part.reduction, part.value)
                                  : nest::make(*part.compute);
      body.push_back(part.guard.defined() ? nest::make(Guard{part.guard, own, nullptr}) : own);
    }
    return nest::make_loop(vector_.name, vector_.min, vector_.extent, Role::Serial,
                           nest::make_sequence(body));
  }

  /// The innermost loop. The last vector of a constant extent begins early enough to end with it;
  /// its lanes that repeat elements add nothing. Or it is predicated, which takes one vector
  /// also where the extent is shorter.
  Nest loop() const {
    Expr lane = lane_variable();
    std::string round = vector_.name + ".r";
    Expr full = simplify(vector_.extent / lanes_);
    Expr rounds = simplify(full / copies_), rest = simplify(full % copies_);
    std::vector<Nest> parts;
    std::vector<Nest> copies;
    for (int u = 0; u < copies_; ++u)
      copies.push_back(
          vector((ir::make_variable(round) * copies_ + u) * lanes_ + lane, u, Expr(), Expr()));
    if (!is_const_zero(rounds))
      parts.push_back(nest::make_loop(round, 0, rounds, Role::Serial, nest::make_sequence(copies)));
    Expr done = rounds * copies_;
    int next = 0;
    if (auto vectors = as_const_int(rest)) {
      for (; next < *vectors; ++next)
        parts.push_back(vector((done + next) * lanes_ + lane, next, Expr(), Expr()));
    } else {
      std::string single = vector_.name + ".s";
      Expr position = (done + ir::make_variable(single)) * lanes_ + lane;
      parts.push_back(
          nest::make_loop(single, 0, rest, Role::Serial, vector(position, 0, Expr(), Expr())));
    }
    next %= copies_;
    if (!extent_) {
      Expr tail = vector_.extent % lanes_;
      parts.push_back(nest::make(
          Guard{tail > 0, vector(full * lanes_ + lane, next, lane < tail, lane < tail), nullptr}));
    } else if (*extent_ % lanes_) {
      int tail = static_cast<int>(*extent_ % lanes_);
      parts.push_back(
          predicated_   ? predicated_vector(full * lanes_ + lane, next, lane < tail + hidden_zero())
          : repeatable_ ? vector(static_cast<int>(*extent_) - lanes_ + lane, next,
                                 lane >= lanes_ - tail, Expr())
                        : vector(full * lanes_ + lane, next, lane < tail, lane < tail));
    }
    return nest::make_sequence(parts);
  }

  /// Everything around the loops that add into the partial results, which are one element where
  /// these are `serial`.
  Nest wrap(const Nest& loops, bool serial = false) const {
    const int copies = serial ? 1 : copies_, lanes = serial ? 1 : lanes_;
    std::vector<Nest> before, after;
    for (const Part& part : parts_) {
      if (!part.accumulates) continue;
      for (int u = 0; u < copies; ++u)
        before.push_back(lane_loop(lanes, in_partial(part, place(u, lane_variable()),
                                                     ir::Reduction::None, neutral(part))));
      for (int width = copies * lanes; width > 1;) {
        // Whole vectors first, then halves of the last one.
        int half = width > lanes_ ? (width / lanes_ + 1) / 2 * lanes_ : width / 2;
        for (int at = half; at < width; at += lanes_) {
          Expr x = lane_variable() + (at - half), y = lane_variable() + at;
          after.push_back(lane_loop(std::min(lanes_, half),
                                    in_partial(part, x, part.reduction,
                                               ir::make_load(part.accumulator, part.partial, y))));
        }
        width = half;
      }
      Compute last = *part.compute;
      last.value = term_of(part, ir::make_load(part.accumulator, part.partial, 0));
      after.push_back(nest::make(std::move(last)));
    }
    before.push_back(loops);
    before.insert(before.end(), after.begin(), after.end());
    Nest result = nest::make_sequence(before);
    for (const Part& part : parts_)
      if (part.accumulates)
        result = nest::make(nest::Buffer{part.partial, part.accumulator, copies * lanes,
                                         nest::Memory::Stack, result});
    return result;
  }

 private:
  Expr lane_variable() const { return ir::make_variable(vector_.name + ".l"); }
  Expr place(int copy, const Expr& lane) const { return lane + copy * lanes_; }
  Nest lane_loop(int lanes, const Nest& body) const {
    std::string name = vector_.name + ".l";
    if (lanes == 1) return nest::substitute(name, Expr(0), body);
    return nest::make_loop(name, 0, lanes, Role::Vector, body);
  }

  /// partial[index] = value, or it is reduced with it.
  static Nest in_partial(const Part& part, const Expr& index, ir::Reduction reduction,
                         const Expr& value) {
    return nest::make(Compute{part.partial, part.accumulator, index, value, reduction});
  }

  /// The body at `position` (relative to the loop's first), into partial results `copy`. Only terms
  /// of lanes where `counts` holds are added; only lanes where `runs` holds touch memory.
  Nest vector(const Expr& position, int copy, const Expr& counts, const Expr& runs) const {
    std::vector<Nest> body;
    for (const Part& part : parts_) {
      if (!part.accumulates) {
        Nest compute = nest::make(*part.compute);
        Expr guard =
            runs.defined() ? (part.guard.defined() ? runs && part.guard : runs) : part.guard;
        body.push_back(guard.defined() ? nest::make(Guard{guard, compute, nullptr}) : compute);
        continue;
      }
      Expr term = part.value;
      auto choose = [&](const Expr& condition) {
        term = ir::choose_lazily(condition, term, hide_extreme(neutral(part)));
      };
      if (part.guard.defined()) choose(part.guard);
      if (runs.defined())
        choose(runs);
      else if (counts.defined())
        term = Select::make(counts, term, hide_extreme(neutral(part)));
      body.push_back(in_partial(part, place(copy, lane_variable()), part.reduction, term));
    }
    return lane_loop(
        lanes_, nest::substitute(vector_.name, vector_.min + position, nest::make_sequence(body)));
  }

  /// Whether the tail may be a predicated vector: wide ones have masked loads, of words that are
  /// contiguous. Where the loop stores something as well, the last vector overlaps.
  bool may_predicate(const Reads& reads, int vector_bits) const {
    return vector_bits >= 256 && reads.gathers == 0 && reads.narrowest >= 32 &&
           std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.accumulates && !part.guard.defined(); });
  }

  /// The same, predicated by `counts`, the loads too. Of products both factors are 0 in the other
  /// lanes, so that one instruction multiplies and adds.
  Nest predicated_vector(const Expr& position, int copy, const Expr& counts) const {
    const auto predicated = [&](const Expr& e, const Expr& other) -> Expr {
      if (const auto* load = e.as<Load>(); load && expr_uses_var(load->index, vector_.name))
        return ir::choose_lazily(counts, e, other);
      const Expr inside = ir::mutate(e, [&](const Load* op, ir::Mutator&) -> Expr {
        if (!expr_uses_var(op->index, vector_.name)) return op;
        return ir::choose_lazily(counts, op, make_zero(op->type));
      });
      return Select::make(counts, inside, hide_extreme(other));
    };
    std::vector<Nest> body;
    for (const Part& part : parts_) {
      const auto* product = part.reduction == ir::Reduction::Sum ? part.value.as<Mul>() : nullptr;
      const Expr zero = make_zero(part.accumulator);
      body.push_back(in_partial(part, place(copy, lane_variable()), part.reduction,
                                product
                                    ? predicated(product->a, zero) * predicated(product->b, zero)
                                    : predicated(part.value, neutral(part))));
    }
    return lane_loop(
        lanes_, nest::substitute(vector_.name, vector_.min + position, nest::make_sequence(body)));
  }

  const Loop& vector_;
  std::vector<Part> parts_;
  int lanes_ = 1, copies_ = 1;
  std::optional<int64_t> extent_;
  bool repeatable_ = true;
  bool predicated_ = false;  ///< the last vector of a constant extent
};

/// Joins the loops above a vector with it, as far as addresses walk on. What is no loop stays.
Nest join(const Nest& nest) {
  const auto* loop = as<Loop>(nest);
  if (!loop) return nest;
  const Nest body = join(loop->body);
  const auto* inner = as<Loop>(body);
  if (inner && loop->role == Role::Serial && inner->role == Role::Vector &&
      is_const_zero(loop->min) && is_const_zero(inner->min))
    if (Nest merged = merge_loops(*loop, *inner)) return merged;
  return body == loop->body ? nest : nest::with_body(*loop, body);
}

/// Loops that contain one another and nothing else, outermost first.
using Loops = std::vector<const Loop*>;

Nest rebuild(const Loops& loops, size_t count, Nest inner) {
  while (count-- > 0) inner = nest::with_body(*loops[count], inner);
  return inner;
}

/// The loops with the vector as a serial one.
Nest serial(const Loops& loops) {
  return rebuild(loops, loops.size() - 1, nest::make_serial(*loops.back()));
}

Loops rows_below(const Loop& vector) {
  Loops rows;
  for (const auto* row = as<Loop>(vector.body); row && row->role == Role::Unrolled;
       row = as<Loop>(row->body))
    rows.push_back(row);
  return rows;
}

/// Whether it depends on a loop above the vector which or how many rows there are below it.
bool rows_change(const Loops& loops) {
  for (const Loop* row : rows_below(*loops.back()))
    for (size_t k = 0; k + 1 < loops.size(); ++k)
      if (expr_uses_var(row->extent, loops[k]->name) || expr_uses_var(row->min, loops[k]->name))
        return true;
  return false;
}

/// Rows below the vector, in unrolled loops: unrolled where there are as many as the loops allow,
/// and one after the other, each with a vector loop of its own, where there are fewer. Null without
/// such loops.
Nest unroll_rows(const Loops& loops) {
  const Loops rows = rows_below(*loops.back());
  if (rows.empty()) return nullptr;
  Expr full = const_true();
  bool bounded = true;
  Nest block = rows.back()->body, singles = rebuild(loops, loops.size(), block);
  for (size_t k = rows.size(); k-- > 0;) {
    const auto extent = as_const_int(find_constant_bound(rows[k]->extent, Direction::Upper));
    bounded = bounded && extent;
    std::vector<Nest> copies;
    for (int64_t r = 0; extent && r < *extent; ++r)
      copies.push_back(
          nest::substitute(rows[k]->name, simplify(rows[k]->min + static_cast<int>(r)), block));
    if (!copies.empty()) block = nest::make_sequence(copies);
    if (extent && !is_const(rows[k]->extent))
      full = full && rows[k]->extent == static_cast<int>(*extent);
    singles = nest::make_loop(rows[k]->name, rows[k]->min, rows[k]->extent, Role::Serial, singles);
  }
  if (!bounded) return singles;
  full = simplify(full);
  const Nest rebuilt = rebuild(loops, loops.size(), block);
  return is_const_one(full) ? rebuilt : nest::make(Guard{full, rebuilt, singles});
}

/// Whether two computes of one buffer have elements that are never the same in an iteration.
bool apart(const Compute& a, const Compute& b) {
  auto distance = as_const_int(simplify(a.index - b.index));
  return distance && *distance != 0;
}

class VectorizeReductions {
 public:
  VectorizeReductions(int vector_bits, const CpuMachine& machine)
      : vector_bits_(vector_bits), machine_(machine) {}

  Nest node(const Nest& nest) {
    if (as<nest::Intrinsic>(nest)) return nest;
    return as<Loop>(nest) ? visit(join(nest)) : inside(nest);
  }

 private:
  Nest inside(const Nest& nest) {
    return nest::map_children(nest, [&](const Nest& child) { return node(child); });
  }

  Nest visit(const Nest& nest) {
    // The loops from here to the vector, if there is nothing else.
    Loops loops = {as<Loop>(nest)};
    while (loops.back()->role == Role::Serial && as<Loop>(loops.back()->body))
      loops.push_back(as<Loop>(loops.back()->body));
    const Loop& vector = *loops.back();
    if (vector.role != Role::Vector) return inside(nest);
    if (rows_change(loops)) return inside(nest);  // further in
    if (Nest unrolled = unroll_rows(loops)) return node(unrolled);

    std::vector<Part> parts;
    const bool plain = collect(vector.body, Expr(), parts);
    if (!plain) return inside(stores_in_place(vector) ? serial(loops) : nest);
    const Reads reads = reads_of(vector);
    bool accumulates = false, legal = true;
    for (Part& part : parts) {
      const Compute& compute = *part.compute;
      int same = 0;
      for (const Part& other : parts) {
        if (other.compute->buffer != compute.buffer) continue;
        ++same;
        // Two computes that write one tensor may meet in an element.
        if (other.compute != &compute && !apart(*other.compute, compute)) legal = false;
      }
      if (expr_uses_var(compute.index, vector.name)) continue;
      accumulates = true;
      const auto loads = reads.loads.find(compute.buffer);
      if (compute.reduction == ir::Reduction::None || loads->second != same)
        legal = false;
      else
        accumulate(part);
    }
    if (!accumulates) return inside(nest);
    if (!legal) return inside(serial(loops));

    // Further in where some result changes in this loop.
    for (size_t k = 0; k + 1 < loops.size(); ++k)
      for (const Part& part : parts)
        if (part.accumulates && expr_uses_var(part.compute->index, loops[k]->name))
          return inside(nest);
    for (Part& part : parts)
      if (part.accumulates) part.partial = concat(part.compute->buffer, ".partial", partials_++);
    PartialResults partial(vector, reads, parts, vector_bits_, machine_);
    if (partial.lanes() == 1) return serial(loops);
    const Nest vectors = partial.wrap(rebuild(loops, loops.size() - 1, partial.loop()));
    if (!ir::has_load(vector.extent) || loops.size() > 1) return vectors;
    // In this order: Halide would let the partial result of one element lie where those of vectors
    // are, and LLVM keep both in one register.
    return nest::make(Guard{partial.is_short(), partial.wrap(partial.serial(), true), vectors});
  }

  /// Whether some compute below the loop has one element in all its iterations.
  static bool stores_in_place(const Loop& vector) {
    return nest::any<Compute>(vector.body, [&](const Compute& compute) {
      return !expr_uses_var(compute.index, vector.name);
    });
  }

  const int vector_bits_;
  const CpuMachine& machine_;
  int partials_ = 0;
};

}  // namespace

Nest vectorize_reductions(const Nest& nest, int vector_bits, const CpuMachine& machine) {
  return VectorizeReductions(vector_bits, machine).node(nest);
}

}  // namespace tc::codegen
