// Functions that vectors compute without calls.
#pragma once

#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cosh, erf, exp, exp2, expm1, log, log10,
/// log1p, log2, sinh or tanh of a float or double, of floats also erfc, hypot and pow, in strict
/// operations; undefined for other names and types. Special values are C's. In float all are within
/// 2 units in the last place, in double within 3. A call to libm takes 5 to 20 ns an element, these
/// take one or two.
ir::Expr vector_math(const std::string& name, const std::vector<ir::Expr>& arguments);

}  // namespace tc::codegen
