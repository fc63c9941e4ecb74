// Simplification that keeps floating-point meaning.
#pragma once

#include "ir/program.h"

namespace tc::ir {

using Bounds = Halide::Internal::Scope<Halide::Internal::Interval>;

/// Whether intervals show that a read stays inside its tensor for all values in bounds.
bool stays_inside(const Halide::Internal::Call* read, const Program& program, const Bounds& bounds);

/// Simplifies a subscript or condition as Halide does, with the floats in it left as they are: its
/// rules take x - x for 0 and !(x < y) for x >= y, whatever NaN says.
Expr simplify_index(const Expr& e, const Bounds& bounds = {});

/// Simplifies what is computed on integers and leaves every floating-point operation as written:
/// Halide's rules (x - x is 0, x * 0 is 0) do not keep NaN and infinity. `bounds` may give constant
/// limits of variables.
Expr simplify_integers(const Expr& e, const Bounds& bounds);

/// Puts expressions of other indices in place of a statement's in all that it says; its domain
/// stays.
void substitute_indices(Statement& statement, const std::map<std::string, Expr>& values);

/// Replaces conditions of lazy choices that those around them decide, as the second one in
/// `c ? a : c && d ? e : f`, and choices whose conditions are constants. Halide's simplifier, which
/// learns what holds in each branch, takes what follows from both for unreachable, and the code
/// behind it disappears.
Expr decide_repeated_conditions(const Expr& e);

/// Turns a lazy choice (`Call::if_then_else`) into a Select where both sides may be evaluated: all
/// reads in them provably stay inside their tensors. Sizes and bounds must be constants.
Expr evaluate_eagerly(const Expr& e, const Program& program, const Bounds& bounds);

/// The same integer sum with each variable in one term: `3 * i - j + i` is `4 * i - j`. Interval
/// arithmetic is exact on such sums. Left as it is where a factor does not fit an int32.
Expr collect_terms(const Expr& e);

}  // namespace tc::ir
