// The next number of a narrow float type.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Turns nextafter of narrow floats into arithmetic on their bits. All other functions of them are
/// computed in float and rounded, which would take a step of a float back. To be called before
/// lower_math.
ir::Stmt lower_narrow_steps(const ir::Stmt& stmt);

}  // namespace tc::codegen
