// Inverse functions of sines, cosines and tangents, circular and hyperbolic, of float or double, in
// strict operations without calls.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

// Infinities, NaN and the signs of zeros are as in C. Arguments are names, or as short.

ir::Expr arc_sine(const ir::Expr& x);
ir::Expr arc_cosine(const ir::Expr& x);
ir::Expr arc_tangent(const ir::Expr& x);
/// The angle of the point (x, y).
ir::Expr arc_tangent_of_two(const ir::Expr& y, const ir::Expr& x);

ir::Expr area_hyperbolic_sine(const ir::Expr& x);
ir::Expr area_hyperbolic_cosine(const ir::Expr& x);
ir::Expr area_hyperbolic_tangent(const ir::Expr& x);

}  // namespace tc::codegen
