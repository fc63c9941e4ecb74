// Functions of float or double that come down to powers of e, in strict operations without calls.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

// Infinities, NaN and the signs of zeros are as in C. x is a name, or as short.

ir::Expr exponential(const ir::Expr& x);
ir::Expr exponential_minus_one(const ir::Expr& x);
ir::Expr hyperbolic_tangent(const ir::Expr& x);
/// Exact for whole numbers.
ir::Expr exponential_of_two(const ir::Expr& x);
/// 2^(high + low) of doubles, of which `low` is small and `high` has few bits.
ir::Expr exponential_of_two(const ir::Expr& high, const ir::Expr& low);
ir::Expr hyperbolic_sine(const ir::Expr& x);
ir::Expr hyperbolic_cosine(const ir::Expr& x);
ir::Expr error_function(const ir::Expr& x);
/// Of float alone.
ir::Expr complementary_error_function(const ir::Expr& x);
/// 2^t of a double whose magnitude is 200 at most, within 2^-34 of it: exact enough for floats.
ir::Expr exponential_of_two_for_floats(const ir::Expr& t);

/// x, but from `low` to `high`; NaN stays.
ir::Expr between(double low, const ir::Expr& x, double high);

}  // namespace tc::codegen
