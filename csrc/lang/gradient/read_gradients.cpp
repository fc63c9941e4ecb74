#include "lang/gradient/read_gradients.h"

#include "lang/gradient/function_gradients.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Active = std::set<std::string>;

class Propagation {
 public:
  explicit Propagation(const Active& active) : active_(active) {}

  void run(const ExpressionPtr& e, const ExpressionPtr& gradient, const ExpressionPtr& result) {
    if (!is_active(*e, active_)) return;
    if (is_access(*e)) {
      gradients_.push_back({e, guards_, gradient});
    } else if (e->kind == ExpressionKind::Ternary) {
      run_branch(*e, 1, e->operands[0], gradient, result);
      run_branch(*e, 2, logical_not(e->operands[0]), gradient, result);
    } else if (e->kind == ExpressionKind::Cast) {
      run_operand(*e, 0, gradient, nullptr);
    } else {
      ExpressionPtr value = result ? result : e;
      for (size_t k = 0; k < e->operands.size(); ++k) {
        if (!is_active(*e->operands[k], active_)) continue;
        ExpressionPtr part = operand_gradient(*e, k, gradient, value);
        if (part) run_operand(*e, k, part, nullptr);
      }
    }
  }

  std::vector<ReadGradient> take() { return std::move(gradients_); }

 private:
  void run_branch(const Expression& e, size_t k, const ExpressionPtr& guard,
                  const ExpressionPtr& gradient, const ExpressionPtr& result) {
    guards_.push_back(guard);
    // Where the branch is taken, its value is that of the whole.
    run_operand(e, k, gradient, e.operands[k]->type == e.type ? result : nullptr);
    guards_.pop_back();
  }

  void run_operand(const Expression& e, size_t k, const ExpressionPtr& gradient,
                   const ExpressionPtr& result) {
    const ExpressionPtr& operand = e.operands[k];
    run(operand, operand->type == e.type ? gradient : cast(operand->type, gradient), result);
  }

  const Active& active_;
  std::vector<ExpressionPtr> guards_;
  std::vector<ReadGradient> gradients_;
};

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
  Propagation propagation(active);
  propagation.run(value, gradient, result);
  return propagation.take();
}

}  // namespace tc::lang
