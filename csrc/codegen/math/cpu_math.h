// Builtins, minima and comparisons as the CPU computes them.
#pragma once

#include "codegen/math/narrow_floats.h"
#include "ir/halide.h"

namespace tc::codegen {

/// Replaces the language's builtins (ir::math) by Halide's vectorisable functions where those agree
/// with C's, and by calls to libm otherwise. Comparisons, min and max of floats become strict: NaN
/// compares false, min and max return it, fmin and fmax ignore it. Half and bfloat16 are computed
/// in float.
ir::Stmt lower_math(const ir::Stmt& stmt, NarrowConversions has);

}  // namespace tc::codegen
