#include "codegen/point_vectors.h"

#include <utility>

#include "base/error.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kPoint[] = "point";

class CutPointVectors : public IRMutator {
 public:
  CutPointVectors(int lanes, const std::set<std::string>& locals, bool repeatable)
      : lanes_(lanes), locals_(locals), repeatable_(repeatable) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (!point_dimension(op->name) || op->for_type != ForType::Vectorized)
      return IRMutator::visit(op);
    int extent = static_cast<int>(*as_const_int(op->extent));
    if (lanes_ == 1) return ir::make_for(op->name, 0, extent, ForType::Unrolled, op->body);
    int full = extent / lanes_, rest = extent % lanes_;
    std::string vector = op->name + ".v", lane = op->name + ".l", tail = op->name + ".t";
    Stmt result;
    if (full > 0) {
      Expr value = ir::make_variable(vector) * lanes_ + ir::make_variable(lane);
      Stmt body =
          ir::make_for(lane, 0, lanes_, ForType::Vectorized, substitute(op->name, value, op->body));
      result = ir::make_for(vector, 0, full, ForType::Unrolled, body);
    }
    if (rest > 0) {
      Expr x = ir::make_variable(tail);
      bool repeat = repeatable_ && full > 0;
      Stmt body = LocalPositions(op->name, x + full * lanes_, locals_).mutate(op->body);
      body = substitute(op->name, repeat ? x + (extent - lanes_) : x + full * lanes_, body);
      if (!repeat) body = PredicateMemory(x < rest, locals_).mutate(body);
      body = ir::make_for(tail, 0, lanes_, ForType::Vectorized, body);
      result = result.defined() ? Block::make(result, body) : body;
    }
    return result;
  }

  /// Local arrays have a place of their own for every lane of the last vector.
  class LocalPositions : public IRMutator {
   public:
    LocalPositions(const std::string& loop, const Expr& position,
                   const std::set<std::string>& locals)
        : loop_(loop), position_(position), locals_(locals) {}

   private:
    using IRMutator::visit;
    Expr visit(const Load* op) override {
      if (!locals_.count(op->name)) return IRMutator::visit(op);
      return ir::make_load(op->type, op->name, substitute(loop_, position_, op->index));
    }
    Stmt visit(const Store* op) override {
      if (!locals_.count(op->name)) return IRMutator::visit(op);
      return ir::make_store(op->name, substitute(loop_, position_, op->index), mutate(op->value));
    }
    const std::string& loop_;
    const Expr& position_;
    const std::set<std::string>& locals_;
  };

  class PredicateMemory : public IRMutator {
   public:
    PredicateMemory(Expr condition, const std::set<std::string>& locals)
        : condition_(std::move(condition)), locals_(locals) {}

   private:
    using IRMutator::visit;
    Stmt visit(const Store* op) override {
      Stmt store = IRMutator::visit(op);
      return locals_.count(op->name) ? store : IfThenElse::make(condition_, store);
    }
    Expr visit(const Load* op) override {
      Expr load = IRMutator::visit(op);
      if (locals_.count(op->name)) return load;
      return Call::make(load.type(), Call::if_then_else, {condition_, load, make_zero(load.type())},
                        Call::PureIntrinsic);
    }
    const Expr condition_;
    const std::set<std::string>& locals_;
  };

  const int lanes_;
  const std::set<std::string>& locals_;
  const bool repeatable_;
};

}  // namespace

std::string point_loop(size_t dimension) { return concat(kPoint, dimension); }

std::optional<size_t> point_dimension(const std::string& name) {
  size_t length = sizeof kPoint - 1;
  if (name.compare(0, length, kPoint) != 0) return std::nullopt;
  return std::stoul(name.substr(length));
}

bool is_point_loop(const std::string& name) { return point_dimension(name).has_value(); }

Stmt cut_point_vectors(const Stmt& stmt, int lanes, const std::set<std::string>& locals,
                       bool repeatable) {
  return CutPointVectors(lanes, locals, repeatable).mutate(stmt);
}

}  // namespace tc::codegen
