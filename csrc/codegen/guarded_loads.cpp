#include "codegen/guarded_loads.h"

#include <map>
#include <string>
#include <utility>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

/// a && b && ...: what all lanes share as a scalar, and the rest as a vector; undefined when
/// absent.
struct Condition {
  Expr uniform, varying;
};

Expr join(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a && b;
}

Condition split(const Expr& condition) {
  if (const auto* broadcast = condition.as<Broadcast>())
    if (broadcast->value.type().is_scalar()) return {broadcast->value, Expr()};
  if (const auto* both = condition.as<And>()) {
    Condition a = split(both->a), b = split(both->b);
    return {join(a.uniform, b.uniform), join(a.varying, b.varying)};
  }
  return {Expr(), condition};
}

/// Adds a condition to every load; loads of one element for all lanes become vectors first, since
/// they are only safe where some lane is on.
class PredicateLoads : public IRMutator {
 public:
  explicit PredicateLoads(Expr condition) : condition_(std::move(condition)) {}

 private:
  using IRMutator::visit;
  Expr visit(const Broadcast* op) override {
    const auto* load = op->value.as<Load>();
    if (!load || op->lanes != condition_.type().lanes()) return IRMutator::visit(op);
    return Load::make(load->type.with_lanes(op->lanes), load->name,
                      Broadcast::make(load->index, op->lanes), load->image, load->param, condition_,
                      ModulusRemainder());
  }
  Expr visit(const Load* op) override {
    if (op->type.lanes() != condition_.type().lanes()) return IRMutator::visit(op);
    return Load::make(op->type, op->name, mutate(op->index), op->image, op->param,
                      is_const_one(op->predicate) ? condition_ : op->predicate && condition_,
                      op->alignment);
  }
  const Expr condition_;
};

class LowerChoices : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else) || op->type.is_scalar() || op->args.size() != 3 ||
        op->args[0].type().is_scalar())
      return IRMutator::visit(op);
    Expr yes = mutate(op->args[1]), no = mutate(op->args[2]);
    Condition condition = split(op->args[0]);
    Expr chosen = yes;
    if (condition.varying.defined()) {
      Expr on = condition.varying;
      chosen = Select::make(on, PredicateLoads(on).mutate(yes), PredicateLoads(!on).mutate(no));
    }
    if (!condition.uniform.defined()) return chosen;
    return Call::make(op->type, Call::if_then_else, {condition.uniform, chosen, no},
                      Call::PureIntrinsic);
  }
};

class HideOffsets : public IRMutator {
 public:
  std::map<int64_t, std::string> names;

 private:
  using IRMutator::visit;
  Expr visit(const Load* op) override {
    Expr index = hide(mutate(op->index)), predicate = mutate(op->predicate);
    return Load::make(op->type, op->name, index, op->image, op->param, predicate, op->alignment);
  }
  Stmt visit(const Store* op) override {
    Expr value = mutate(op->value), index = hide(mutate(op->index));
    return Store::make(op->name, value, index, op->param, mutate(op->predicate), op->alignment);
  }
  Expr hide(const Expr& index) {
    const auto* ramp = index.as<Ramp>();
    auto base = ramp ? as_const_int(ramp->base) : std::nullopt;
    auto stride = ramp ? as_const_int(ramp->stride) : std::nullopt;
    if (!base || !stride || (*base >= 0 && *stride >= 0)) return index;
    std::string& name = names[*base];
    if (name.empty()) name = unique_name("offset");
    Expr variable = ir::make_variable(name);
    return Ramp::make(Halide::cast(ramp->base.type(), variable), ramp->stride, ramp->lanes);
  }
};

}  // namespace

Stmt hide_negative_offsets(const Stmt& stmt) {
  HideOffsets hide;
  Stmt result = hide.mutate(stmt);
  for (const auto& [value, name] : hide.names)
    result = LetStmt::make(name, static_cast<int>(value), result);
  return result;
}

Stmt predicate_guarded_loads(const Stmt& stmt) { return LowerChoices().mutate(stmt); }

}  // namespace tc::codegen
