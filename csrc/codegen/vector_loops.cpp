#include "codegen/vector_loops.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/near_gathers.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

// Narrow types would otherwise give vectors of 64 lanes, whose tails and gathers cost more than
// they save.
constexpr int kMaxLanes = 32;

// Up to so many vectors of a row at a place that data says are unrolled, so that the loop over the
// places sees all of what it will read (see prefetch_gathers).
constexpr int kUnrolledVectors = 8;

// Choices that a loop is there twice for.
constexpr int kMostChoices = 2;

/// Bits of the widest element that the lanes of a loop access. What says where, the same for all
/// lanes, is none of it.
class WidestLane : public IRVisitor {
 public:
  explicit WidestLane(const std::string& loop) : loop_(loop) {}
  int bits = 0;
  bool scatters = false;  ///< whether data says where something is stored

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    if (indices_ == 0 || expr_uses_var(op->index, loop_)) bits = std::max(bits, op->type.bits());
    scatters = scatters || stored_;
    index(op->index);
  }
  void visit(const Store* op) override {
    bits = std::max(bits, op->value.type().bits());
    op->value.accept(this);
    stored_ = true;
    index(op->index);
    stored_ = false;
  }
  void index(const Expr& e) {
    ++indices_;
    e.accept(this);
    --indices_;
  }
  const std::string& loop_;
  int indices_ = 0;
  bool stored_ = false;
};

/// The first choice between things to load that a loop does not decide.
class FindChoice : public IRVisitor {
 public:
  explicit FindChoice(const std::string& loop) : loop_(loop) {}
  Expr condition;

 private:
  using IRVisitor::visit;
  void visit(const Select* op) override {
    if (condition.defined()) return;
    if (op->condition.type().is_scalar() && !expr_uses_var(op->condition, loop_) &&
        !ir::has_load(op->condition) && is_pure(op->condition) && ir::has_load(op->true_value) &&
        ir::has_load(op->false_value))
      condition = op->condition;
    else
      IRVisitor::visit(op);
  }
  void visit(const Let* op) override {}  // its names are not known outside
  const std::string& loop_;
};

/// Choices by a condition, decided.
class Decide : public IRMutator {
 public:
  Decide(Expr condition, bool value) : condition_(std::move(condition)), value_(value) {}

 private:
  using IRMutator::visit;
  Expr visit(const Select* op) override {
    if (!equal(op->condition, condition_)) return IRMutator::visit(op);
    return mutate(value_ ? op->true_value : op->false_value);
  }
  const Expr condition_;
  const bool value_;
};

class CutVectorLoops : public IRMutator {
 public:
  explicit CutVectorLoops(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ir::ForType::Vectorized) return IRMutator::visit(op);
    if (choices_ < kMostChoices) {
      FindChoice choice(op->name);
      op->body.accept(&choice);
      if (choice.condition.defined()) return decide(op, choice.condition);
    }
    WidestLane widest(op->name);
    op->body.accept(&widest);
    int lanes = std::clamp(vector_bits_ / std::max(8, widest.bits), 1, kMaxLanes);
    auto constant = as_const_int(op->extent);
    while (constant && *constant <= lanes / 2) lanes /= 2;
    if (lanes == 1)
      return ir::make_for(op->name, op->min, op->extent, ir::ForType::Serial, op->body);

    if (Stmt patterned = cut_by_pattern(op, lanes); patterned.defined()) return patterned;
    Expr full = simplify(op->extent / lanes), rest = simplify(op->extent % lanes);
    Stmt result;
    if (!is_const_zero(full)) {
      std::string vector = op->name + ".v", lane = op->name + ".l";
      Expr value = op->min + ir::make_variable(vector) * lanes + ir::make_variable(lane);
      Stmt body = ir::make_for(lane, 0, lanes, ir::ForType::Vectorized,
                               substitute(op->name, value, op->body));
      result = is_const_one(full) ? substitute(vector, Expr(0), body)
                                  : ir::make_for(vector, 0, full, outer_type(full, widest), body);
    }
    if (!is_const_zero(rest)) {
      Stmt tail = make_tail(op, op->min + full * lanes, rest, lanes);
      if (!is_const(rest)) tail = IfThenElse::make(rest > 0, tail);
      result = result.defined() ? Block::make(result, tail) : tail;
    }
    return result.defined() ? result : Evaluate::make(0);
  }

  /// A loop for each side of a choice: what is not chosen need not be loaded.
  Stmt decide(const For* op, const Expr& condition) {
    ++choices_;
    auto loop = [&](bool value) {
      return mutate(ir::make_for(op->name, op->min, op->extent, op->for_type,
                                 Decide(condition, value).mutate(op->body)));
    };
    Stmt yes = loop(true), no = loop(false);
    --choices_;
    return IfThenElse::make(condition, yes, no);
  }

  /// The first `count` of a vector of iterations.
  static Stmt make_tail(const For* op, const Expr& first, const Expr& count, int lanes) {
    std::string lane = op->name + ".t";
    Expr x = ir::make_variable(lane);
    Stmt body = substitute(op->name, first + x, op->body);
    return ir::make_for(lane, 0, lanes, ir::ForType::Vectorized, IfThenElse::make(x < count, body));
  }

  /// Where quotients and remainders give the places of loads, as many vectors in turn as their
  /// pattern takes: in each of them it is known. Nothing where there is none, or where its
  /// beginning is not known.
  static Stmt cut_by_pattern(const For* op, int lanes) {
    const int period = find_period(op->body, op->name);
    auto extent = as_const_int(op->extent);
    if (period == 1 || !extent) return Stmt();
    const int step = std::lcm(lanes, period);
    const ModulusRemainder first = modulus_remainder(op->min);
    if (first.modulus % period != 0 && !is_const(op->min)) return Stmt();
    auto vectors = [&](const Expr& begin, int64_t count) {
      std::vector<Stmt> parts;
      for (int64_t v = 0; v < count; ++v) {
        std::string lane = op->name + ".l";
        Expr value = begin + (static_cast<int>(v) * lanes + ir::make_variable(lane));
        parts.push_back(ir::make_for(lane, 0, lanes, ir::ForType::Vectorized,
                                     substitute(op->name, value, op->body)));
      }
      return parts;
    };
    const int full = static_cast<int>(*extent / step), rest = static_cast<int>(*extent % step);
    std::vector<Stmt> parts;
    if (full > 0) {
      std::string turn = op->name + ".v";
      Stmt body = Block::make(vectors(op->min + ir::make_variable(turn) * step, step / lanes));
      parts.push_back(full == 1 ? substitute(turn, Expr(0), body)
                                : ir::make_for(turn, 0, full, ir::ForType::Serial, body));
    }
    for (Stmt& part : vectors(op->min + full * step, rest / lanes))
      parts.push_back(std::move(part));
    if (rest % lanes != 0)
      parts.push_back(
          make_tail(op, op->min + (full * step + rest / lanes * lanes), rest % lanes, lanes));
    return Block::make(parts);
  }

  static ir::ForType outer_type(const Expr& full, const WidestLane& widest) {
    auto vectors = as_const_int(full);
    bool few = vectors && *vectors <= kUnrolledVectors;
    return few && widest.scatters ? ir::ForType::Unrolled : ir::ForType::Serial;
  }

  const int vector_bits_;
  int choices_ = 0;  ///< that are decided around the loop
};

}  // namespace

Stmt cut_vector_loops(const Stmt& stmt, int vector_bits) {
  return CutVectorLoops(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
