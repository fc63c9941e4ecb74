// Vectors that are put together of scalars.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Puts vectors together of the scalars' bits. Halide's simplifier makes `ramp(a, b - a, 2)` of two
/// scalars a and b, whose second lane is not b where b - a is rounded, or overflows. To be called
/// after separate_lanes, which alone makes such vectors, and before simplification.
ir::Stmt join_lanes_as_bits(const ir::Stmt& stmt);

/// Halide's rewrite_interleavings, for vectors whose every other lane is computed by itself. It
/// makes a vector of what is chosen where a lazy choice is one number for all lanes, so that these
/// numbers are kept from it.
ir::Stmt separate_lanes(const ir::Stmt& stmt);

}  // namespace tc::codegen
