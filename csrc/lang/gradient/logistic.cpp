#include "lang/gradient/logistic.h"

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

bool calls(const Expression& e, const char* function) {
  return e.kind == ExpressionKind::Apply && e.binding == Binding::Builtin && e.name == function;
}

bool is_exponential(const Expression& e) {
  return calls(e, "exp") && e.operands[0]->type == e.type;
}

bool is_positive_number(const Expression& e) { return e.constant && e.constant->as_double() > 0; }

/// k + exp(z), or k + c * exp(z) with a positive number c.
struct Shifted {
  ExpressionPtr shift, argument;
  bool scaled = false;
};

/// exp(z), perhaps times a positive number; null where there is none.
const Expression* find_exponential(const Expression& e) {
  if (is_exponential(e)) return &e;
  if (!is_binary(e, Operator::Multiply)) return nullptr;
  for (const size_t k : {0, 1})
    if (is_positive_number(*e.operands[k]) && is_exponential(*e.operands[1 - k]))
      return e.operands[1 - k].get();
  return nullptr;
}

std::optional<Shifted> find_shifted(const Expression& e) {
  if (!is_binary(e, Operator::Add)) return std::nullopt;
  for (const size_t k : {0, 1}) {
    const ExpressionPtr& shift = e.operands[k];
    const Expression* exponential = find_exponential(*e.operands[1 - k]);
    if (is_positive_number(*shift) && exponential && exponential->type == e.type)
      return Shifted{shift, exponential->operands[0], exponential != e.operands[1 - k].get()};
  }
  return std::nullopt;
}

bool are_equal_numbers(const Expression& a, const Expression& b) {
  return a.constant && b.constant && a.constant->as_double() == b.constant->as_double();
}

}  // namespace

std::optional<LogisticGradient> logistic_gradient(const Expression& e,
                                                  const ExpressionPtr& gradient,
                                                  const ExpressionPtr& result) {
  if (is_binary(e, Operator::Divide)) {
    const ExpressionPtr &numerator = e.operands[0], &divisor = e.operands[1];
    const auto shifted = divisor->type == e.type ? find_shifted(*divisor) : std::nullopt;
    if (!shifted) return std::nullopt;
    const ExpressionPtr one = are_equal_numbers(*numerator, *shifted->shift)
                                  ? result
                                  : binary(Operator::Divide, shifted->shift, divisor);
    const ExpressionPtr share = binary(Operator::Subtract, real(1), one);
    return LogisticGradient{
        shifted->argument,
        binary(Operator::Multiply, binary(Operator::Multiply, negate(gradient), result), share)};
  }
  if (!calls(e, "log") && !calls(e, "log1p")) return std::nullopt;
  const ExpressionPtr& operand = e.operands[0];
  if (operand->type != e.type) return std::nullopt;
  std::optional<Shifted> shifted;
  if (e.name == "log")
    shifted = find_shifted(*operand);
  else if (is_exponential(*operand))
    shifted = Shifted{real(1), operand->operands[0]};
  if (!shifted || shifted->scaled) return std::nullopt;
  ExpressionPtr decay = access("exp", {negate(shifted->argument)});
  if (shifted->shift->constant && shifted->shift->constant->as_double() != 1)
    decay = binary(Operator::Multiply, shifted->shift, decay);
  return LogisticGradient{
      shifted->argument, binary(Operator::Divide, gradient, binary(Operator::Add, real(1), decay))};
}

}  // namespace tc::lang
