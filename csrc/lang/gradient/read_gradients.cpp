#include "lang/gradient/read_gradients.h"

#include "lang/gradient/function_gradients.h"
#include "lang/gradient/logistic.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Active = std::set<std::string>;

/// Adds what the reads in `e` receive where these guards hold.
void propagate(const ExpressionPtr& e, const ExpressionPtr& gradient, const ExpressionPtr& result,
               const Active& active, std::vector<ExpressionPtr>& guards,
               std::vector<ReadGradient>& gradients) {
  if (!is_active(*e, active)) return;
  const auto go_on = [&](size_t k, const ExpressionPtr& part, const ExpressionPtr& value) {
    const ExpressionPtr& operand = e->operands[k];
    propagate(operand, operand->type == e->type ? part : cast(operand->type, part), value, active,
              guards, gradients);
  };
  if (is_access(*e)) {
    gradients.push_back({e, guards, gradient});
  } else if (e->kind == ExpressionKind::Ternary) {
    for (const size_t k : {1, 2}) {
      guards.push_back(k == 1 ? e->operands[0] : logical_not(e->operands[0]));
      // Where the branch is taken, its value is that of the whole.
      go_on(k, gradient, e->operands[k]->type == e->type ? result : nullptr);
      guards.pop_back();
    }
  } else if (e->kind == ExpressionKind::Cast) {
    go_on(0, gradient, nullptr);
  } else {
    const auto logistic = logistic_gradient(*e, gradient, result ? result : e);
    for (size_t k = 0; k < e->operands.size(); ++k) {
      if (!is_active(*e->operands[k], active)) continue;
      if (logistic && k + 1 == e->operands.size()) {
        propagate(logistic->argument, logistic->part, nullptr, active, guards, gradients);
        continue;
      }
      ExpressionPtr part = operand_gradient(*e, k, gradient, result ? result : e);
      if (part) go_on(k, part, nullptr);
    }
  }
}

}  // namespace

bool is_active(const Expression& e, const Active& active) {
  if (!e.type.is_float()) return false;
  if (is_access(e)) return active.count(e.name) != 0;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    bool condition = e.kind == ExpressionKind::Ternary && k == 0;
    if (!condition && is_active(*e.operands[k], active)) return true;
  }
  return false;
}

std::vector<ReadGradient> read_gradients(const ExpressionPtr& value, const ExpressionPtr& gradient,
                                         const ExpressionPtr& result, const Active& active) {
  std::vector<ExpressionPtr> guards;
  std::vector<ReadGradient> gradients;
  propagate(value, gradient, result, active, guards, gradients);
  return gradients;
}

}  // namespace tc::lang
