#include "codegen/unroll_reductions.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "codegen/hidden_zero.h"
#include "codegen/point_vectors.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

/// How far an index moves with a loop.
std::optional<int64_t> step_of(const Expr& index, const std::string& loop) {
  return as_const_int(
      simplify(substitute(loop, Expr(1), index) - substitute(loop, Expr(0), index)));
}

/// Hides from LLVM that iterations of a loop load the same elements: it would keep all of them in
/// registers for the iterations to come, and move accumulators to memory instead.
class SeparateWindows : public IRMutator {
 public:
  /// `free`: registers that neither accumulators nor vectors of operands need.
  SeparateWindows(const For* loop, int64_t iterations, int64_t free)
      : loop_(loop), iterations_(iterations), free_(free) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (!is_point_loop(op->name)) return IRMutator::visit(op);
    points_[op->name] = op;
    Stmt result = IRMutator::visit(op);
    points_.erase(op->name);
    return result;
  }
  Expr visit(const Load* op) override {
    int64_t step = step_of(op->index, loop_->name).value_or(0);
    int64_t values = 1;
    bool overlap = false;
    for (const auto& [name, point] : points_) {
      int64_t along = step_of(op->index, name).value_or(0);
      if (along == 0) continue;
      if (point->for_type == ForType::Vectorized) return op;
      int64_t extent = as_const_int(point->extent).value_or(1);
      values *= extent;
      for (int64_t later = 1; later < iterations_; ++later)
        overlap = overlap || (step * later % along == 0 && std::abs(step * later / along) < extent);
    }
    if (step == 0 || !overlap || values <= free_) return op;
    return Load::make(op->type, op->name,
                      op->index + ir::make_variable(loop_->name) * hidden_zero(), op->image,
                      op->param, op->predicate, ModulusRemainder());
  }

  const For* loop_;
  const int64_t iterations_, free_;
  std::map<std::string, const For*> points_;
};

/// Loads at places that data says.
class FindLookups : public IRVisitor {
 public:
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    found = found || inside_;
    inside_ = true;
    op->index.accept(this);
    inside_ = false;
  }
  bool inside_ = false;
};

/// The processor mispredicts the ends of short loops.
class UnrollShortReductions : public IRMutator {
 public:
  UnrollShortReductions(int lanes, int registers) : lanes_(lanes), registers_(registers) {}

 private:
  /// Vector operations that the body of a loop may grow to.
  static constexpr int64_t kMostOperations = 128;

  using IRMutator::visit;
  Stmt visit(const For* op) override {
    bool point = is_point_loop(op->name);
    if (point && op->for_type == ForType::Vectorized) {
      vectors_ = (as_const_int(op->extent).value_or(1) + lanes_ - 1) / lanes_;
    }
    Stmt body = mutate(op->body);
    int64_t extent = as_const_int(op->extent).value_or(kMostOperations + 1);
    if (op->for_type == ForType::Vectorized) extent = vectors_;
    if (point) accumulators_ = operations_ * extent;
    operations_ = std::min(kMostOperations + 1, operations_ * extent);
    if (point || operations_ > kMostOperations)
      return ir::make_for(op->name, op->min, op->extent, op->for_type, body);
    body = SeparateWindows(op, extent, registers_ - accumulators_ - vectors_).mutate(body);
    return ir::make_for(op->name, op->min, op->extent, ForType::Unrolled, body);
  }
  Stmt visit(const Block* op) override {
    Stmt first = mutate(op->first);
    int64_t before = operations_;
    Stmt rest = mutate(op->rest);
    operations_ += before;
    return Block::make(first, rest);
  }
  Stmt visit(const Store* op) override {
    FindLookups lookups;
    op->value.accept(&lookups);
    // Their addresses, several of which wait at a time, would take the accumulators' registers.
    operations_ = lookups.found ? kMostOperations + 1 : 1;
    return op;
  }

  const int lanes_, registers_;
  int64_t operations_ = 0;    ///< of the statement visited last, all its loops unrolled
  int64_t accumulators_ = 0;  ///< of the statement visited last
  int64_t vectors_ = 1;       ///< of one row of them
};

}  // namespace

Stmt unroll_short_reductions(const Stmt& body, int lanes, int registers) {
  return UnrollShortReductions(lanes, registers).mutate(body);
}

}  // namespace tc::codegen
