// Functions that an expression calls several times with the same arguments.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Common subexpression elimination of calls of the language's functions (ir::math) alone, so that
/// sums and products stay where they can be contracted: f'(g(x)) * g'(x), as derivatives have it,
/// calls g once. A name stands in front of the whole expression, or of the branch of a lazy choice.
/// To be called before lower_math, which makes up to a hundred operations of every call.
ir::Stmt name_common_calls(const ir::Stmt& stmt);

}  // namespace tc::codegen
