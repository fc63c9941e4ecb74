// Names one after the other instead of one inside the other.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Where the value of a name begins with names of its own, let x = (let y = a in b), these come in
/// front of it. To be called before Halide's find_intrinsics, which takes loads out of the value of
/// x and leaves y, by which they may be predicated, behind.
ir::Stmt lift_lets(const ir::Stmt& stmt);

/// Names inside each other's values, more than a few levels deep, come one after the other in front
/// of the whole expression, or of the branch of a lazy choice. Halide's rewrite_interleavings and
/// simplify walk through the value of a name several times, and so through what is inside it that
/// many times more often for every level. Every name is to have a value of its own.
ir::Stmt flatten_deep_lets(const ir::Stmt& stmt);

}  // namespace tc::codegen
