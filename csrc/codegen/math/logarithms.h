// Logarithms of float or double, in strict operations without calls.
#pragma once

#include <functional>
#include <utility>

#include "codegen/math/named.h"
#include "ir/halide.h"

namespace tc::codegen {

// Infinities, NaN and the signs of zeros are as in C. x is a name, or as short.

ir::Expr logarithm(const ir::Expr& x);
/// log(1 + x).
ir::Expr logarithm_of_one_plus(const ir::Expr& x);
/// Exact for powers of two.
ir::Expr logarithm_to_two(const ir::Expr& x);
/// Exact for powers of ten.
ir::Expr logarithm_to_ten(const ir::Expr& x);
/// log(u) of a double that is not denormal, with as many digits as a float has.
ir::Expr logarithm_for_floats(const ir::Expr& u);

/// log2(x) of a positive and finite double as a high part (see high_part) and what it lacks,
/// within 2^-63 of it.
std::pair<ir::Expr, ir::Expr> logarithm_to_two_in_parts(const ir::Expr& x, Names& names);

/// `use` gets f and e, x = (1 + f) * 2^e and |f| <= 1/3, of an x that is positive and finite. e is
/// an integer in the place where floats have their exponents.
ir::Expr split_float(const ir::Expr& x,
                     const std::function<ir::Expr(const ir::Expr& f, const ir::Expr& e)>& use);

ir::Expr is_positive_finite(const ir::Expr& x);

/// The logarithm of a u that is not positive and finite; an x that is infinite or NaN stays.
ir::Expr outside_of_logarithm(const ir::Expr& u, const ir::Expr& x);

}  // namespace tc::codegen
