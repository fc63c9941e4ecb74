// Terms that a constant divides are multiplied by its reciprocal.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// S(n) +=! X(n, k) / 3136 adds X(n, k) * (1 / 3136), which is off by one rounding more at most;
/// the order of a sum decides about as many digits. The sum stays as small as in the text. Left
/// alone are constants whose reciprocals are near the ends of their type. Runs on a specialised
/// program.
void multiply_by_reciprocals(Program& program);

}  // namespace tc::ir
