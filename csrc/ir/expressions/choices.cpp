#include "ir/expressions/choices.h"

#include "ir/visit.h"

namespace tc::ir {

namespace {

bool is_lazy(const Call* op) { return op->is_intrinsic(Call::if_then_else); }

}  // namespace

bool has_lazy_choice(const Expr& e) { return any<Call>(e, is_lazy); }

bool has_lazy_choice(const Stmt& stmt) { return any<Call>(stmt, is_lazy); }

std::optional<Choice> find_choice(const Expr& e) {
  if (const auto* select = e.as<Select>())
    return Choice{select->condition, select->true_value, select->false_value};
  const auto* call = e.as<Call>();
  if (!call || !is_lazy(call) || call->args.size() != 3) return std::nullopt;
  return Choice{call->args[0], call->args[1], call->args[2]};
}

Expr choose_lazily(const Expr& condition, const Expr& yes, const Expr& no) {
  return Call::make(yes.type(), Call::if_then_else, {condition, yes, no}, Call::PureIntrinsic);
}

std::vector<Expr> list_conditions(const Expr& e) {
  const auto* both = e.as<And>();
  const std::optional<Choice> lazy = find_choice(e);
  if (!both && !(lazy && is_const_zero(lazy->no))) return {e};
  std::vector<Expr> all = list_conditions(both ? both->a : lazy->condition);
  for (const Expr& other : list_conditions(both ? both->b : lazy->yes)) all.push_back(other);
  return all;
}

}  // namespace tc::ir
