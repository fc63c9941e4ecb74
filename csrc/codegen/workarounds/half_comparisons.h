// Comparisons of half, which LLVM 21 gets wrong.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Hides one side of every comparison by < or <= whose sides LLVM could find to be halves made
/// float or double. It would compare the halves, and where the processor does so by itself
/// (AVX512-FP16) and under a mask, LLVM 21 takes a < b and b < a for the same (llvm/llvm-project
/// issue 159723, mended in LLVM 22). Comparisons of floats are to be strict already.
/// define_hidden_zero must run afterwards.
ir::Stmt compare_halves_as_floats(const ir::Stmt& stmt);

}  // namespace tc::codegen
