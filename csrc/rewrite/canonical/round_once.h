// One rounding to a narrow float for all that a statement computes.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Where a statement without a reduction computes several operations on half or bfloat16, they are
/// computed in float, and its value is rounded where it is stored, as compilers of PyTorch's
/// programs do. Casts to these types that the text writes round as before. Runs behind
/// widen_accumulators, which is about sums.
void round_once(Program& program);

}  // namespace tc::ir
