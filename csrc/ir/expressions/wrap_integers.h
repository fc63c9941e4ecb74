// Integer arithmetic on indices and sizes as the language defines it. Halide takes an overflow of
// 32 or 64 bits for something that cannot be: it folds `i + 2147483647 > i` to true, and where
// constants that it moves about have no room it leaves a marker that no code can be made of. So
// what may come so far is put into forms that it does not look through, before it simplifies
// anything. Programs that stay clear of the ends of their types are left as they are.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// The value of a statement, made to wrap around: of its arithmetic, what may overflow for the
/// ranges of the indices is done without signs, and so are comparisons of numbers too far apart.
/// Subscripts in it are as `exact_subscript` makes them. Sizes must be constants.
Expr wrap_around(const Expr& value, const Program& program, const Statement& statement);

/// A subscript of a statement, which never wraps around: where 32 bits may not hold a step on the
/// way to it, all of it is computed in 64. ShapeError where these do not hold one either.
Expr exact_subscript(const Expr& subscript, const Program& program, const Statement& statement);

/// Whether a subscript that `exact_subscript` has made, with data in it, may leave its type so far
/// that what is left of it lies from 0 to below `size` though its number does not. One int32 of
/// data with indices added does not: what such a sum wraps around to is outside as well.
bool may_wrap_inside(const Expr& index, int64_t size, const Program& program,
                     const Statement& statement);

}  // namespace tc::ir
