#include "codegen/tiles/intrinsics.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/lower_nest.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"
#include "isa/instructions.h"

namespace tc::codegen {
namespace {

/// An index with quotients and remainders by the blocks of a copy's layout, where the ranges of
/// loops say what they are.
Expr simplify_blocks(const Expr& index, const Scope<Interval>& ranges) {
  auto rest = [&](const Expr& a, const Expr& b) { return simplify(Mod::make(a, b), true, ranges); };
  return ir::mutate(
      index,
      [&](const Div* op, ir::Mutator& self) {
        const Expr a = self.mutate(op->a), b = self.mutate(op->b);
        return simplify(Div::make(a - rest(a, b), b));
      },
      [&](const Mod* op, ir::Mutator& self) {
        return rest(self.mutate(op->a), self.mutate(op->b));
      });
}

/// The loops of an intrinsic; a missing one has one iteration.
struct IntrinsicLoops {
  const Loop *lane = nullptr, *term = nullptr;
  const Compute* compute = nullptr;  ///< null where something else is inside
  Scope<Interval> ranges;

  explicit IntrinsicLoops(Nest inner) {
    for (; const auto* loop = as<Loop>(inner); inner = loop->body) {
      (loop->role == Role::Vector ? lane : term) = loop;
      ranges.push(loop->name, Interval(loop->min, simplify(loop->min + loop->extent - 1)));
    }
    compute = as<Compute>(inner);
  }
  static int extent(const Loop* loop) {
    const auto extent = loop ? as_const_int(loop->extent) : 1;
    TC_INTERNAL_CHECK(extent, "the iterations of ", loop->name, " are not known");
    return static_cast<int>(*extent);
  }
  int lanes() const { return extent(lane); }
  int terms() const { return extent(term); }
  /// By how much an index moves along one of the loops; nothing where that varies.
  static std::optional<int64_t> step(const Loop* loop, const Expr& index) {
    return loop ? ir::step_along(index, loop->name) : 0;
  }
  static Expr at(const Loop* loop, int iteration, const Expr& index) {
    return loop ? simplify(substitute(loop->name, loop->min + iteration, index)) : index;
  }
};

Expr repeat(const Expr& e, int times) { return times == 1 ? e : Broadcast::make(e, times); }

/// So many places, this far apart.
Expr ramp(const Expr& base, int64_t step, int lanes) {
  return lanes == 1 ? base : Ramp::make(base, make_const(base.type(), step), lanes);
}

/// What a load brings to all lanes, so many terms each; zeros in the place of those that are
/// missing. Undefined where lanes lie at varying distances.
class Register {
 public:
  Register(const Load& load, const IntrinsicLoops& loops, int terms)
      : load_(load),
        loops_(loops),
        index_(simplify_blocks(load.index, loops.ranges)),
        lanes_(loops.lanes()),
        given_(loops.terms()),
        terms_(terms) {}

  Expr value() const {
    const Expr first =
        IntrinsicLoops::at(loops_.lane, 0, IntrinsicLoops::at(loops_.term, 0, index_));
    const auto along_lanes = IntrinsicLoops::step(loops_.lane, index_);
    const bool run = given_ == 1 || IntrinsicLoops::step(loops_.term, index_) == 1;
    if (run && along_lanes == 0 && lanes_ > 1) return shared(first);
    if (run && (lanes_ == 1 || along_lanes == terms_)) return dense(first, lanes_);
    // A vector for each term, whose lanes take turns.
    std::vector<Expr> vectors;
    for (int j = 0; j < terms_; ++j) {
      vectors.push_back(j < given_ ? of_term(IntrinsicLoops::at(loops_.term, j, index_))
                                   : make_zero(load_.type.with_lanes(lanes_)));
      if (!vectors.back().defined()) return Expr();
    }
    return Shuffle::make_interleave(vectors);
  }

 private:
  Expr make_load(const Expr& index, const Expr& predicate) const {
    return Load::make(load_.type.with_lanes(index.type().lanes()), load_.name, index, load_.image,
                      load_.param, predicate, ModulusRemainder());
  }

  /// The terms of so many lanes, one behind the other; missing ones are not read.
  Expr dense(const Expr& first, int lanes) const {
    Expr predicate = const_true(lanes * terms_);
    if (given_ < terms_)
      predicate =
          repeat(Ramp::make(Expr(0), Expr(1), terms_) < Broadcast::make(given_, terms_), lanes);
    return make_load(ramp(first, 1, lanes * terms_), predicate);
  }

  /// The terms of one lane, as one number that all lanes get.
  Expr shared(const Expr& first) const {
    const Expr word = reinterpret(Halide::UInt(load_.type.bits() * terms_), dense(first, 1));
    return reinterpret(load_.type.with_lanes(lanes_ * terms_), repeat(word, lanes_));
  }

  Expr of_term(const Expr& index) const {
    const auto step = IntrinsicLoops::step(loops_.lane, index);
    if (!step) return Expr();
    const Expr first = IntrinsicLoops::at(loops_.lane, 0, index);
    if (*step == 0) return repeat(make_load(first, const_true()), lanes_);
    return make_load(ramp(first, *step, lanes_), const_true(lanes_));
  }

  const Load& load_;
  const IntrinsicLoops& loops_;
  const Expr index_;
  const int lanes_, given_, terms_;
};

/// The loads of a compute in the place of the instruction's operands; nothing where a condition
/// says whether some are made.
std::optional<std::vector<Expr>> find_loads(const isa::Instruction& instruction,
                                            const Compute& compute, const Loop* lane) {
  bool lazy = false;
  nest::for_each_lazy_load(compute.value, [&](const Load&) { lazy = true; });
  if (lazy) return std::nullopt;
  auto loads = isa::match_value(instruction, compute.value);
  TC_INTERNAL_CHECK(loads && compute.reduction == ir::Reduction::Sum, instruction.name,
                    " does not add up ", compute.value);
  // Factors of one type may change places.
  const auto moves = [&](const Expr& load) {
    return lane && expr_uses_var(load.as<Load>()->index, lane->name);
  };
  if (loads->size() == 2 && (*loads)[0].type() == (*loads)[1].type() && moves((*loads)[0]) &&
      !moves((*loads)[1]))
    std::swap((*loads)[0], (*loads)[1]);
  return loads;
}

}  // namespace

Stmt lower_intrinsic(const nest::Intrinsic& intrinsic) {
  const isa::Instruction& instruction = *isa::find_instruction(intrinsic.instruction);
  const IntrinsicLoops loops(intrinsic.body);
  const auto loads =
      loops.compute ? find_loads(instruction, *loops.compute, loops.lane) : std::nullopt;
  if (!loads) return lower(intrinsic.body);
  const Compute& compute = *loops.compute;
  std::vector<Expr> operands;
  for (const Expr& load : *loads) {
    operands.push_back(
        Register(*load.as<Load>(), loops, static_cast<int>(instruction.terms)).value());
    if (!operands.back().defined()) return lower(intrinsic.body);
  }
  const auto step = IntrinsicLoops::step(loops.lane, compute.index);
  TC_INTERNAL_CHECK(step, "results of ", instruction.name, " lie at varying distances");
  const int lanes = loops.lanes();
  const Expr place = ramp(IntrinsicLoops::at(loops.lane, 0, compute.index), *step, lanes);
  const Expr before =
      ir::make_load(compute.type.with_lanes(lanes), compute.buffer, place, compute.parameter);
  return ir::make_store(compute.buffer, place, instruction.make(before, operands),
                        compute.parameter);
}

}  // namespace tc::codegen
