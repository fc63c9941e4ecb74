#include "codegen/vector_loops.h"

#include <algorithm>

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

class CutVectorLoops : public IRMutator {
 public:
  explicit CutVectorLoops(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ir::ForType::Vectorized) return IRMutator::visit(op);
    WidestLane widest(op->name);
    op->body.accept(&widest);
    int lanes = std::clamp(vector_bits_ / std::max(8, widest.bits), 1, kMaxLanes);
    auto constant = as_const_int(op->extent);
    while (constant && *constant <= lanes / 2) lanes /= 2;
    if (lanes == 1)
      return ir::make_for(op->name, op->min, op->extent, ir::ForType::Serial, op->body);

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
      std::string lane = op->name + ".t";
      Expr x = ir::make_variable(lane);
      Stmt body = substitute(op->name, op->min + full * lanes + x, op->body);
      Stmt tail =
          ir::make_for(lane, 0, lanes, ir::ForType::Vectorized, IfThenElse::make(x < rest, body));
      if (!is_const(rest)) tail = IfThenElse::make(rest > 0, tail);
      result = result.defined() ? Block::make(result, tail) : tail;
    }
    return result.defined() ? result : Evaluate::make(0);
  }

  static ir::ForType outer_type(const Expr& full, const WidestLane& widest) {
    auto vectors = as_const_int(full);
    bool few = vectors && *vectors <= kUnrolledVectors;
    return few && widest.scatters ? ir::ForType::Unrolled : ir::ForType::Serial;
  }

  const int vector_bits_;
};

}  // namespace

Stmt cut_vector_loops(const Stmt& stmt, int vector_bits) {
  return CutVectorLoops(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
