// Sums and products of narrow floats in float.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Splits every sum and product over half or bfloat16 in three: what it starts from, the reduction
/// in a float temporary, and one rounding at the end.
Program widen_accumulators(const Program& program);

}  // namespace tc::ir
