// Intrinsics of vectors: widening products, averages, saturating sums.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Halide's find_intrinsics. It looks for them in vectors only, and walks through expressions once
/// for every way that leads to them, so that it is kept from scalars, and from what around_choices
/// returns with all names replaced: common values have names again before (the gradient of seven
/// functions of functions took minutes).
Halide::Internal::Stmt find_vector_intrinsics(const Halide::Internal::Stmt& stmt);

}  // namespace tc::codegen
