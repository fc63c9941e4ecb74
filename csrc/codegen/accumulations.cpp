#include "codegen/accumulations.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/hidden_zero.h"
#include "codegen/point_vectors.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr char kAccumulate[] = "tc.accumulate";
constexpr char kHidden[] = "tc.hidden";

/// The elements that the factors of a product load.
class FindLoads : public IRVisitor {
 public:
  std::vector<const Load*> loads;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    loads.push_back(op);
    IRVisitor::visit(op);
  }
};

/// Whether two iterations of unrolled loops may multiply by the same element. Then x * a + x * b
/// would be x * (a + b) to LLVM, which differs for infinite x, a or b.
class SharedFactors {
 public:
  explicit SharedFactors(const std::vector<const For*>& loops) : loops_(loops) {}

  bool any(const Expr& product) const {
    FindLoads find;
    product.accept(&find);
    for (const Load* a : find.loads) {
      for (const Load* b : find.loads) {
        if (a->name == b->name && meet(a->index, b->index)) return true;
      }
    }
    return false;
  }

 private:
  bool meet(const Expr& a, const Expr& b) const {
    std::vector<int64_t> steps;
    for (const For* loop : loops_) {
      auto step = constant(at(a, loop, 1) - at(a, loop, 0));
      if (!step || step != constant(at(b, loop, 1) - at(b, loop, 0))) return true;
      steps.push_back(*step);
    }
    Expr first = a, second = b;
    for (const For* loop : loops_) first = at(first, loop, 0), second = at(second, loop, 0);
    auto distance = constant(first - second);
    return !distance || meet(steps, 0, *distance, false);
  }
  /// Whether the steps of two iterations, which differ in a loop before `k` or do so later, lead
  /// over the distance.
  bool meet(const std::vector<int64_t>& steps, size_t k, int64_t distance, bool differ) const {
    if (k == loops_.size()) return differ && distance == 0;
    int64_t extent = as_const_int(loops_[k]->extent).value_or(1);
    for (int64_t apart = 1 - extent; apart < extent; ++apart) {
      if (meet(steps, k + 1, distance + apart * steps[k], differ || apart != 0)) return true;
    }
    return false;
  }

  static Expr at(const Expr& index, const For* loop, int iteration) {
    return substitute(loop->name, Expr(iteration), index);
  }
  static std::optional<int64_t> constant(const Expr& e) { return as_const_int(reveal(e)); }

  const std::vector<const For*>& loops_;
};

/// Adds a zero of its own for every iteration to the addresses of loads.
class SeparateLoads : public IRMutator {
 public:
  explicit SeparateLoads(const std::vector<const For*>& loops) {
    for (const For* loop : loops)
      iteration_ = iteration_ * loop->extent + ir::make_variable(loop->name);
  }

 private:
  using IRMutator::visit;
  Expr visit(const Load* op) override {
    return Load::make(op->type, op->name, mutate(op->index) + iteration_ * hidden_zero(), op->image,
                      op->param, op->predicate, ModulusRemainder());
  }

  Expr iteration_ = 0;
};

class MarkAccumulations : public IRMutator {
 public:
  MarkAccumulations(const std::set<std::string>& locals, const std::set<std::string>& read,
                    int64_t elements)
      : locals_(locals), read_(read), elements_(elements) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ForType::Serial && !is_reduction(op)) return IRMutator::visit(op);
    ++loops_;
    if (is_reduction(op)) unrolled_.push_back(op);
    Stmt loop = IRMutator::visit(op);
    if (is_reduction(op)) unrolled_.pop_back();
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
    const auto* product = sum->b.as<Mul>();
    if (!product || !ir::loads_itself(sum->a, *op) || is_const(product->a) || is_const(product->b))
      return op;
    if (read_.count(op->name)) marked_.emplace(op->name, op->value.type());
    Expr a = product->a, b = product->b;
    if (SharedFactors(unrolled_).any(sum->b)) {
      SeparateLoads separate(unrolled_);
      a = separate.mutate(a);
      b = separate.mutate(b);
    }
    return ir::make_store(
        op->name, op->index,
        Call::make(op->value.type(), kAccumulate, {sum->a, a, b}, Call::PureExtern));
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
  const std::set<std::string>& read_;
  const int64_t elements_;
  std::map<std::string, ir::Type> marked_;
  std::vector<const For*> unrolled_;  ///< reductions around the visited statement
  int loops_ = 0;
};

class LowerAccumulations : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (op->name == kAccumulate)
      return Add::make(Mul::make(factor(op->args[1]), factor(op->args[2])), mutate(op->args[0]));
    if (op->is_intrinsic(Call::abs) && op->type.is_float()) return clear_sign(mutate(op->args[0]));
    return op->name == kHidden ? hidden(mutate(op->args[0])) : IRMutator::visit(op);
  }
  /// The absolute value, about which LLVM concludes nothing.
  static Expr clear_sign(const Expr& e) {
    const ir::Type bits = e.type().with_code(halide_type_int);
    const auto mask = static_cast<int64_t>(~uint64_t{0} >> (65 - bits.bits()));
    return reinterpret(e.type(), reinterpret(bits, e) & make_const(bits, mask));
  }
  Expr visit(const Cast* op) override {
    Expr converted = IRMutator::visit(op);
    bool floats = op->type.is_float() && op->value.type().is_float();
    return floats ? hidden(converted) : converted;
  }

  /// A factor that is a number of a narrower type: what the sum may assume of it, it may assume of
  /// its conversion too. Not so of conversions further inside, whose results may be tested for NaN.
  Expr factor(const Expr& e) {
    if (const auto* broadcast = e.as<Broadcast>())
      return Broadcast::make(factor(broadcast->value), broadcast->lanes);
    // An unrolled iterator. LLVM takes 0 * x for 0.
    if (is_const(e)) return hidden(e);
    const auto* cast = e.as<Cast>();
    bool floats = cast && cast->type.is_float() && cast->value.type().is_float();
    return floats ? Cast::make(cast->type, mutate(cast->value)) : mutate(e);
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

Stmt mark_accumulations(const Stmt& stmt, const std::set<std::string>& locals,
                        const std::set<std::string>& read, int64_t elements) {
  return MarkAccumulations(locals, read, elements).mutate(stmt);
}

bool has_accumulations(const Stmt& stmt) {
  FindAccumulations find;
  stmt.accept(&find);
  return find.found;
}

Stmt lower_accumulations(const Stmt& stmt) { return LowerAccumulations().mutate(stmt); }

}  // namespace tc::codegen
