// Functions of float that vectors compute without calls.
#pragma once

#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// exp, expm1, log1p, tanh or erf of a float, in strict operations and within 4 ulp; undefined for
/// other names and types. Special values are C's. A call to libm takes 5 to 20 ns an element, these
/// take less than one.
ir::Expr vector_math(const std::string& name, const std::vector<ir::Expr>& arguments);

}  // namespace tc::codegen
