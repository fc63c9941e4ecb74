// What several reads of one element receive, as one contribution.
#pragma once

#include <vector>

#include "lang/gradient/read_gradients.h"
#include "lang/gradient/sums/adjoint_sum.h"

namespace tc::lang {

/// Whether the other stands for both now: the guards are the same, or say which branch of one
/// condition is taken. `type` is that of the weights.
bool join(const std::vector<ExpressionPtr>& guards, const ExpressionPtr& weight, Type type,
          std::vector<ExpressionPtr>* other_guards, ExpressionPtr* other_weight);

/// The same where `other` is of the same read, as in x * x or in both branches of a condition.
bool join(const ReadGradient& part, Contribution* other);

}  // namespace tc::lang
