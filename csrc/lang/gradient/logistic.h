// Derivatives of logistic functions and their integrals.
#pragma once

#include <optional>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// What the argument z of an exponential receives.
struct LogisticGradient {
  ExpressionPtr argument, part;
};

/// Where `e` is n / (k + c * exp(z)), as sigmoids and what they gate are, log(k + exp(z)) or
/// log1p(exp(z)), with positive numbers k and c: what z receives when `e` receives `gradient`. Of
/// the first it is made of 1 - k / (k + c * exp(z)), which is 1 - e where n is k, as in PyTorch; of
/// the others it is the gradient over 1 + k * exp(-z). Step by step it would be a product of the
/// exponential and its reciprocal's square, which is no number where the exponential is infinite.
/// `result` as in operand_gradient. What n receives is left to that.
std::optional<LogisticGradient> logistic_gradient(const Expression& e,
                                                  const ExpressionPtr& gradient,
                                                  const ExpressionPtr& result);

}  // namespace tc::lang
