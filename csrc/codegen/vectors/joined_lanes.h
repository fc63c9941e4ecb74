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
/// numbers are kept from it. So are shuffles of which it would take a single lane: where their
/// operand is a vector with a name, it takes half of that instead (Halide 21, Deinterleaver of a
/// Shuffle: the operand's lane is looked for with the stride of the shuffle's lanes). So are
/// descending ones, every other lane of which is a slice that the simplifier does not understand,
/// and horizontal reductions, whose scalar results it would deinterleave as if they were vectors
/// (Interleaver of a Store), and strided stores that it must not interleave: of more vectors than
/// there are registers, and of values that are stored between them (StoreCollector: only loads from
/// the buffer itself end what it collects).
ir::Stmt separate_lanes(const ir::Stmt& stmt);

}  // namespace tc::codegen
