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

class CutVectorLoops : public IRMutator {
 public:
  explicit CutVectorLoops(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ir::ForType::Vectorized) return IRMutator::visit(op);
    int bits = std::max(8, ir::widest_element(op->body));
    int lanes = std::clamp(vector_bits_ / bits, 1, kMaxLanes);
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
                                  : ir::make_for(vector, 0, full, ir::ForType::Serial, body);
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

  const int vector_bits_;
};

}  // namespace

Stmt cut_vector_loops(const Stmt& stmt, int vector_bits) {
  return CutVectorLoops(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
