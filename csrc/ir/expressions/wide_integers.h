// Arithmetic of 32 bits in 64, where no sum or product of two steps overflows.
#pragma once

#include <optional>

#include "ir/expressions/simplify.h"
#include "ir/program.h"

namespace tc::ir {

/// The same number in 64 bits, with nothing of it computed in fewer: an int32 in it becomes an
/// int64, and casts between the two disappear. Variables stay as they are, with a cast around them;
/// with `retyped` they become int64 as well. Reads and other calls keep their arguments.
Expr widen(const Expr& e, bool retyped = false);

/// Back from variables of 64 bits; nothing where a constant does not fit 32.
std::optional<Expr> narrow(const Expr& e);

/// Simplifies in 64 bits, for variables whose bounds are given as int64; the result is an int32
/// again, or Halide's marker where that does not hold it.
Expr simplify_wide(const Expr& e, const Bounds& bounds);

/// Whether a part of the expression is Halide's marker of what overflows.
bool overflows(const Expr& e);

}  // namespace tc::ir
