// Functions and arithmetic on floats, as the CPU computes them, and arithmetic that no rule for
// finite numbers may rewrite.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Turns nextafter of narrow floats into arithmetic on their bits. All other functions of them are
/// computed in float and rounded, which would take a step of a float back. To be called before
/// lower_math.
ir::Stmt lower_narrow_steps(const ir::Stmt& stmt);

/// Common subexpression elimination of calls of the language's functions (ir::math) alone, so that
/// sums and products stay where they can be contracted: f'(g(x)) * g'(x), as derivatives have it,
/// calls g once. A name stands in front of the whole expression, or of the branch of a lazy choice.
/// To be called before lower_math, which makes up to a hundred operations of every call.
ir::Stmt name_common_calls(const ir::Stmt& stmt);

/// Replaces the language's builtins (ir::math) by Halide's vectorisable functions where those agree
/// with C's, and by calls to libm otherwise. Comparisons, min and max of floats become strict: NaN
/// compares false, min and max return it, fmin and fmax ignore it. Half and bfloat16 are computed
/// in float.
ir::Stmt lower_math(const ir::Stmt& stmt);

/// Stores of what sin or cos goes into become vectors where every lane's argument is below
/// 10^5, within 2 units in the last place; others call the C library lane by lane as before.
/// To be called after lower_math.
ir::Stmt vectorize_trigonometry(const ir::Stmt& stmt);

/// Computes x / d, where the innermost serial loop around vectors leaves d alone, from 1 / d by a
/// product and a correction with two multiply-adds: a vector division takes four times as long.
/// Where 2^-20 < d < 2^20, which is asked before the loop, the result is that of a division bit for
/// bit, infinities, NaN and the sign of zero included, but where x or the quotient is almost
/// denormal (2^-100 for float, 2^-900 for double): there it may be off by one in the last place.
/// Other divisors are divided by. To be called where multiply-adds round once, after lower_math.
///
/// Source: P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
/// processor", IBM J. Res. Dev. 34(1), 1990, section 7.
ir::Stmt multiply_by_reciprocals(const ir::Stmt& stmt);

/// Turns arithmetic, comparisons, min and max on floats into Halide's strict intrinsics. The rules
/// of Halide and LLVM for plain ones (x - x is 0, x * 0 is 0, x == x is true) take every float for
/// a finite number.
ir::Stmt make_floats_strict(const ir::Stmt& stmt);

/// The inverse, for printers of languages whose plain operators keep their meaning.
ir::Stmt make_floats_plain(const ir::Stmt& stmt);

/// Makes divisions by a constant 0 products with an infinity, which is the same: Halide takes them
/// for mistakes. To be called after simplification, which finds more of them.
ir::Stmt replace_divisions_by_zero(const ir::Stmt& stmt);

/// a * b + c and its kin on strict intrinsics with one rounding.
ir::Stmt contract_floats(const ir::Stmt& stmt);

}  // namespace tc::codegen
