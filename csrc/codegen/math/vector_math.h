// Functions that vectors compute without calls: of float or double, in strict operations.
// Infinities, NaN and the signs of zeros are as in C.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// exp, expm1, log, log1p or tanh of a float or double, erf, exp2, log2 or pow of floats;
/// undefined for other names and types. In float all are within 2 units in the last place, in
/// double within 3. A call to libm takes 5 to 20 ns an element, these take less than one.
ir::Expr vector_math(const std::string& name, const std::vector<ir::Expr>& arguments);

// ---- exponentials. x is a name, or as short.

ir::Expr exponential(const ir::Expr& x);
ir::Expr exponential_minus_one(const ir::Expr& x);
ir::Expr hyperbolic_tangent(const ir::Expr& x);
/// Of float alone. Exact for whole numbers.
ir::Expr exponential_of_two(const ir::Expr& x);
/// Of float alone.
ir::Expr error_function(const ir::Expr& x);

/// x, but from `low` to `high`; NaN stays.
ir::Expr between(double low, const ir::Expr& x, double high);

// ---- logarithms. x is a name, or as short.

ir::Expr logarithm(const ir::Expr& x);
/// log(1 + x).
ir::Expr logarithm_of_one_plus(const ir::Expr& x);
/// Of float alone. Exact for powers of two.
ir::Expr logarithm_to_two(const ir::Expr& x);

/// `use` gets f and e, x = (1 + f) * 2^e and |f| <= 1/3, of an x that is positive and finite. e is
/// an integer in the place where floats have their exponents.
ir::Expr split_float(const ir::Expr& x,
                     const std::function<ir::Expr(const ir::Expr& f, const ir::Expr& e)>& use);

ir::Expr is_positive_finite(const ir::Expr& x);

/// The logarithm of a u that is not positive and finite; an x that is infinite or NaN stays.
ir::Expr outside_of_logarithm(const ir::Expr& u, const ir::Expr& x);

}  // namespace tc::codegen
