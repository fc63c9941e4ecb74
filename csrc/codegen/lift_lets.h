// Names one after the other instead of one inside the other.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Where the value of a name begins with names of its own, let x = (let y = a in b), these come in
/// front of it. To be called before Halide's find_intrinsics, which takes loads out of the value of
/// x and leaves y, by which they may be predicated, behind.
ir::Stmt lift_lets(const ir::Stmt& stmt);

}  // namespace tc::codegen
