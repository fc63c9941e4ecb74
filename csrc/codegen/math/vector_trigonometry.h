// Sines and cosines of vectors.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Stores of what sin or cos goes into become vectors where every lane's argument is below
/// 10^5, within 2 units in the last place; others call the C library lane by lane as before.
/// To be called after lower_math.
ir::Stmt vectorize_trigonometry(const ir::Stmt& stmt);

}  // namespace tc::codegen
