// Vectors that are put together of scalars.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Puts vectors together of the scalars' bits. Halide's simplifier makes `ramp(a, b - a, 2)` of two
/// scalars a and b, whose second lane is not b where b - a is rounded, or overflows. To be called
/// after passes that make such vectors, and before simplification.
ir::Stmt join_lanes_as_bits(const ir::Stmt& stmt);

}  // namespace tc::codegen
