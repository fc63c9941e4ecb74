#include "codegen/workarounds/lift_lets.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

class LiftLets : public IRMutator {
 private:
  using IRMutator::visit;
  Stmt visit(const LetStmt* op) override { return lift(op); }
  Expr visit(const Let* op) override { return lift(op); }

  template <class Binding>
  decltype(Binding::body) lift(const Binding* op) {
    Expr value = mutate(op->value);
    // What follows may know other values by the same names.
    std::vector<std::pair<std::string, Expr>> names;
    std::map<std::string, Expr> fresh;
    while (const auto* inner = value.as<Let>()) {
      names.emplace_back(unique_name('t'), substitute(fresh, inner->value));
      fresh[inner->name] = Variable::make(inner->value.type(), names.back().first);
      value = inner->body;
    }
    auto result = Binding::make(op->name, substitute(fresh, value), mutate(op->body));
    for (size_t n = names.size(); n-- > 0;)
      result = Binding::make(names[n].first, names[n].second, result);
    return result;
  }
};

// Functions of functions of functions, as people write them, stay as they are.
constexpr int kDeepest = 12;

/// How many names are inside each other's values.
class MeasureDepth : public IRVisitor {
 public:
  int deepest = 0;

 private:
  using IRVisitor::visit;
  void visit(const Let* op) override {
    ++depth_;
    deepest = std::max(deepest, depth_);
    op->value.accept(this);
    --depth_;
    op->body.accept(this);
  }
  int depth_ = 0;
};

class FlattenDeepLets : public IRMutator {
 public:
  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    if (inside_) return IRMutator::mutate(e);
    MeasureDepth measure;
    e.accept(&measure);
    return measure.deepest > kDeepest ? flatten(e) : e;
  }

 private:
  using IRMutator::visit;

  /// An expression that begins with all names in it.
  Expr flatten(const Expr& e) {
    const bool outer = std::exchange(inside_, true);
    auto before = std::exchange(names_, {});
    Expr result = IRMutator::mutate(e);
    for (size_t n = names_.size(); n-- > 0;)
      result = Let::make(names_[n].first, names_[n].second, result);
    names_ = std::move(before);
    inside_ = outer;
    return result;
  }

  Expr visit(const Let* op) override {
    Expr value = mutate(op->value);
    const std::string name = unique_name('t');
    names_.emplace_back(name, value);
    ScopedBinding<std::string> bind(fresh_, op->name, name);
    return mutate(op->body);
  }
  Expr visit(const Variable* op) override {
    const std::string* name = fresh_.find(op->name);
    return name ? Variable::make(op->type, *name) : op;
  }
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
    std::vector<Expr> parts = {mutate(op->args[0])};
    for (size_t a = 1; a < op->args.size(); ++a) parts.push_back(flatten(op->args[a]));
    return Call::make(op->type, op->name, parts, op->call_type);
  }

  std::vector<std::pair<std::string, Expr>> names_;
  Scope<std::string> fresh_;
  bool inside_ = false;
};

}  // namespace

Stmt flatten_deep_lets(const Stmt& stmt) { return FlattenDeepLets().mutate(stmt); }

Stmt lift_lets(const Stmt& stmt) { return LiftLets().mutate(stmt); }

}  // namespace tc::codegen
