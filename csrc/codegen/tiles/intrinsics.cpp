#include "codegen/tiles/intrinsics.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "codegen/lower_nest.h"
#include "ir/loops.h"
#include "isa/instructions.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;
using nest::as;
using nest::Loop;

/// The loops of an intrinsic; a missing one has one iteration.
struct Loops {
  const Loop *lane = nullptr, *term = nullptr;
  const nest::Compute* compute = nullptr;  ///< null where something else is inside

  explicit Loops(nest::Nest inner) {
    for (; const auto* loop = as<Loop>(inner); inner = loop->body)
      (loop->role == nest::Role::Vector ? lane : term) = loop;
    compute = as<nest::Compute>(inner);
  }
  static int extent(const Loop* loop) {
    const auto extent = loop ? as_const_int(loop->extent) : 1;
    TC_INTERNAL_CHECK(extent, "the iterations of ", loop->name, " are not known");
    return static_cast<int>(*extent);
  }
  int lanes() const { return extent(lane); }
  int terms() const { return extent(term); }
  /// By how much an index moves along one of the loops.
  static Expr step(const Loop* loop, const Expr& index) {
    const auto step = loop ? ir::step_along(index, loop->name) : 0;
    TC_INTERNAL_CHECK(step, index, " moves by no constant along ", loop->name);
    return make_const(index.type(), *step);
  }
  Expr first(Expr index) const {
    for (const Loop* loop : {lane, term})
      if (loop) index = substitute(loop->name, loop->min, index);
    return simplify(index);
  }
};

Expr ramp(const Expr& base, const Expr& step, int lanes) {
  return lanes == 1 ? base : Ramp::make(base, step, lanes);
}

Expr repeat(const Expr& e, int times) { return times == 1 ? e : Broadcast::make(e, times); }

/// Of a load, vectors of the lanes, each with so many terms, `filled` of them with zeros behind the
/// others.
class Register {
 public:
  Register(const Load& load, const Loops& loops, int terms)
      : load_(load),
        lanes_(loops.lanes()),
        given_(loops.terms()),
        terms_(terms),
        base_(loops.first(load.index)),
        along_lanes_(Loops::step(loops.lane, load.index)),
        along_terms_(Loops::step(loops.term, load.index)) {}

  Expr value() const {
    const bool run = given_ == 1 || is_const_one(along_terms_);
    if (run && is_const_zero(along_lanes_) && lanes_ > 1) return shared();
    if (run && (lanes_ == 1 || is_const(along_lanes_, terms_))) return dense(lanes_ * terms_);
    // A vector for each term, whose lanes take turns.
    std::vector<Expr> vectors;
    for (int j = 0; j < terms_; ++j)
      vectors.push_back(j < given_ ? along(j) : make_zero(load_.type.with_lanes(lanes_)));
    return Shuffle::make_interleave(vectors);
  }

 private:
  Expr make_load(const Expr& index, const Expr& predicate) const {
    return Load::make(load_.type.with_lanes(index.type().lanes()), load_.name, index, load_.image,
                      load_.param, predicate, ModulusRemainder());
  }

  /// Elements that lie one behind the other; those of missing terms are not read.
  Expr dense(int elements) const {
    Expr predicate = const_true(elements);
    if (given_ < terms_)
      predicate = repeat(Ramp::make(Expr(0), Expr(1), terms_) < Broadcast::make(given_, terms_),
                         elements / terms_);
    return make_load(ramp(base_, make_one(base_.type()), elements), predicate);
  }

  /// The terms of one lane, as one number that all lanes get.
  Expr shared() const {
    const Expr word = reinterpret(Halide::UInt(load_.type.bits() * terms_), dense(terms_));
    return reinterpret(load_.type.with_lanes(lanes_ * terms_), repeat(word, lanes_));
  }

  Expr along(int term) const {
    const Expr first = simplify(base_ + along_terms_ * make_const(base_.type(), term));
    if (is_const_zero(along_lanes_)) return repeat(make_load(first, const_true()), lanes_);
    return make_load(ramp(first, along_lanes_, lanes_), const_true(lanes_));
  }

  const Load& load_;
  const int lanes_, given_, terms_;
  const Expr base_, along_lanes_, along_terms_;
};

/// The loads of a compute in the place of the instruction's operands; nothing where a condition
/// says whether some are made.
std::optional<std::vector<Expr>> find_loads(const isa::Instruction& instruction,
                                            const nest::Compute& compute) {
  bool lazy = false;
  nest::for_each_lazy_load(compute.value, [&](const Load&) { lazy = true; });
  if (lazy) return std::nullopt;
  auto loads = isa::match_value(instruction, compute.value);
  TC_INTERNAL_CHECK(loads && compute.reduction == ir::Reduction::Sum, instruction.name,
                    " does not add up ", compute.value);
  return loads;
}

}  // namespace

Stmt lower_intrinsic(const nest::Intrinsic& intrinsic) {
  const isa::Instruction& instruction = *isa::find_instruction(intrinsic.instruction);
  const Loops loops(intrinsic.body);
  const auto loads = loops.compute ? find_loads(instruction, *loops.compute) : std::nullopt;
  if (!loads) return lower(intrinsic.body);
  const nest::Compute& compute = *loops.compute;
  std::vector<Expr> operands;
  for (const Expr& load : *loads)
    operands.push_back(
        Register(*load.as<Load>(), loops, static_cast<int>(instruction.terms)).value());
  const int lanes = loops.lanes();
  const Expr place =
      ramp(loops.first(compute.index), Loops::step(loops.lane, compute.index), lanes);
  const Expr before =
      Load::make(compute.type.with_lanes(lanes), compute.buffer, place, Halide::Buffer<>(),
                 compute.parameter, const_true(lanes), ModulusRemainder());
  return Store::make(compute.buffer, instruction.make(before, operands), place, compute.parameter,
                     const_true(lanes), ModulusRemainder());
}

}  // namespace tc::codegen
