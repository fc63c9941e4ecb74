// Operations on half and bfloat16, computed in float.
#pragma once

#include "ir/halide.h"

namespace tc::ir {

inline bool is_narrow_float(Type type) { return type.is_float() && type.bits() < 32; }

/// What an expression computes on narrow floats, in float and not rounded: what has such a type
/// becomes float, and casts to it are left out.
Expr widen_whole(const Expr& e);

/// What an expression computes on narrow floats, in float. What is only read, chosen or compared
/// keeps its type, and so do arguments of casts to it, which round, and subscripts. The result may
/// be a float.
Expr widen_operations(const Expr& e);

}  // namespace tc::ir
