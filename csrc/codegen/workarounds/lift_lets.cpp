#include "codegen/workarounds/lift_lets.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/math/named.h"
#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// The binding with the names that its value begins with in front of it.
template <class Binding>
decltype(Binding::body) lift(const Binding* op, ir::Mutator& self) {
  Expr value = self.mutate(op->value);
  // What follows may know other values by the same names.
  NamedValues names;
  std::map<std::string, Expr> fresh;
  while (const auto* inner = value.as<Let>()) {
    names.emplace_back(unique_name('t'), substitute(fresh, inner->value));
    fresh[inner->name] = Variable::make(inner->value.type(), names.back().first);
    value = inner->body;
  }
  return with_names<Binding>(
      names, Binding::make(op->name, substitute(fresh, value), self.mutate(op->body)));
}

// Functions of functions of functions, as people write them, stay as they are: the workaround is
// for what takes Halide long to compile, which no model of the processor knows.
constexpr int kDeepest = 12;

/// How many names are inside each other's values.
int measure_depth(const Expr& e) {
  int depth = 0, deepest = 0;
  ir::visit(e, [&](const Let* op, ir::Visitor& self) {
    deepest = std::max(deepest, ++depth);
    op->value.accept(&self);
    --depth;
    op->body.accept(&self);
  });
  return deepest;
}

class FlattenDeepLets : public IRMutator {
 public:
  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    if (inside_) return IRMutator::mutate(e);
    return measure_depth(e) > kDeepest ? flatten(e) : e;
  }

 private:
  using IRMutator::visit;

  /// An expression that begins with all names in it.
  Expr flatten(const Expr& e) {
    ScopedValue<bool> inside(inside_, true);
    auto before = std::exchange(names_, {});
    const Expr result = with_names<Let>(names_, IRMutator::mutate(e));
    names_ = std::move(before);
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

  NamedValues names_;
  Scope<std::string> fresh_;
  bool inside_ = false;
};

}  // namespace

Stmt flatten_deep_lets(const Stmt& stmt) { return FlattenDeepLets().mutate(stmt); }

Stmt lift_lets(const Stmt& stmt) { return ir::mutate(stmt, lift<LetStmt>, lift<Let>); }

}  // namespace tc::codegen
