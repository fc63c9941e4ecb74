// Functions of float that vectors compute without calls.
#pragma once

#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// exp, exp2, expm1, log, log2, log1p, pow, tanh or erf of a float, in strict operations and within
/// 2 units in the last place; undefined for other names and types. Special values are C's. A call to
/// libm takes 5 to 20 ns an element, these take less than one.
ir::Expr vector_math(const std::string& name, const std::vector<ir::Expr>& arguments);

}  // namespace tc::codegen
