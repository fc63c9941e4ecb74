#include "codegen/accumulations.h"

#include <map>

#include "base/error.h"
#include "codegen/hidden_zero.h"
#include "codegen/register_tiles.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kAccumulate[] = "tc.accumulate";
constexpr char kHidden[] = "tc.hidden";

class MarkAccumulations : public IRMutator {
 public:
  MarkAccumulations(const std::set<std::string>& locals, int64_t elements)
      : locals_(locals), elements_(elements) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ForType::Serial && !is_reduction(op)) return IRMutator::visit(op);
    ++loops_;
    Stmt loop = IRMutator::visit(op);
    if (--loops_ > 0) return loop;
    for (const auto& [local, type] : marked_) loop = Block::make(loop, hide(local, type));
    marked_.clear();
    return loop;
  }
  Stmt visit(const Store* op) override {
    const auto* sum = op->value.as<Add>();
    if (loops_ == 0 || !sum || !locals_.count(op->name) || !op->value.type().is_float() ||
        op->value.type().bits() < 32)
      return op;
    const auto* before = sum->a.as<Load>();
    const auto* product = sum->b.as<Mul>();
    if (!before || !product || before->name != op->name || !equal(before->index, op->index) ||
        is_const(product->a) || is_const(product->b))
      return op;
    marked_.emplace(op->name, op->value.type());
    return ir::make_store(op->name, op->index,
                          Call::make(op->value.type(), kAccumulate,
                                     {sum->a, product->a, product->b}, Call::PureExtern));
  }

  static bool is_reduction(const For* op) {
    return op->for_type == ForType::Unrolled && !is_point_loop(op->name);
  }

  Stmt hide(const std::string& local, ir::Type type) const {
    std::string loop = concat(point_loop(0), ".hidden.", local);
    Expr index = ir::make_variable(loop);
    Expr value = Call::make(type, kHidden, {ir::make_load(type, local, index)}, Call::PureExtern);
    return ir::make_for(loop, 0, static_cast<int>(elements_), ForType::Vectorized,
                        ir::make_store(local, index, value));
  }

  const std::set<std::string>& locals_;
  const int64_t elements_;
  std::map<std::string, ir::Type> marked_;
  int loops_ = 0;
};

class LowerAccumulations : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (op->name == kAccumulate)
      return Add::make(Mul::make(factor(op->args[1]), factor(op->args[2])), mutate(op->args[0]));
    return op->name == kHidden ? hide(mutate(op->args[0])) : IRMutator::visit(op);
  }
  Expr visit(const Cast* op) override {
    Expr converted = IRMutator::visit(op);
    bool floats = op->type.is_float() && op->value.type().is_float();
    return floats ? hide(converted) : converted;
  }

  /// A factor that is a number of a narrower type: what the sum may assume of it, it may assume of
  /// its conversion too. Not so of conversions further inside, whose results may be tested for NaN.
  Expr factor(const Expr& e) {
    if (const auto* broadcast = e.as<Broadcast>())
      return Broadcast::make(factor(broadcast->value), broadcast->lanes);
    const auto* cast = e.as<Cast>();
    bool floats = cast && cast->type.is_float() && cast->value.type().is_float();
    return floats ? Cast::make(cast->type, mutate(cast->value)) : mutate(e);
  }

  static Expr hide(const Expr& value) {
    ir::Type bits = value.type().with_code(halide_type_int);
    Expr zero = Halide::cast(bits.element_of(), hidden_zero());
    if (bits.is_vector()) zero = Broadcast::make(zero, bits.lanes());
    return reinterpret(value.type(), reinterpret(bits, value) ^ zero);
  }
};

class FindAccumulations : public IRVisitor {
 public:
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    found = found || op->name == kAccumulate;
    IRVisitor::visit(op);
  }
};

}  // namespace

Stmt mark_accumulations(const Stmt& stmt, const std::set<std::string>& locals, int64_t elements) {
  return MarkAccumulations(locals, elements).mutate(stmt);
}

bool has_accumulations(const Stmt& stmt) {
  FindAccumulations find;
  stmt.accept(&find);
  return find.found;
}

Stmt lower_accumulations(const Stmt& stmt) { return LowerAccumulations().mutate(stmt); }

}  // namespace tc::codegen
