// What several reads of one element receive, as one contribution.
#pragma once

#include "lang/gradient/read_gradients.h"
#include "lang/gradient/sums/adjoint_sum.h"

namespace tc::lang {

/// Whether `other` is of the same read, as in x * x or in both branches of a condition. It then
/// stands for both.
bool join(const ReadGradient& part, Contribution* other);

}  // namespace tc::lang
