// Sums and products of narrow floats in float.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Splits every sum and product over half or bfloat16 in three: what it starts from, the reduction
/// in a float temporary, and one rounding at the end. What the reduction computes on narrow floats
/// is not rounded on the way. Runs after start_at_zero: the temporary has the size of the domain.
void widen_accumulators(Program& program);

}  // namespace tc::ir
