// Sines, cosines and tangents of vectors, and remainders, which are what they begin with.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Stores of what sin, cos or a float's tan, fmod or remainder goes into become vectors where every
/// lane's angle is below 10^5, within 2 units in the last place, and every quotient below 2^27;
/// others call the C library lane by lane as before. To be called after lower_math.
ir::Stmt vectorize_trigonometry(const ir::Stmt& stmt);

}  // namespace tc::codegen
