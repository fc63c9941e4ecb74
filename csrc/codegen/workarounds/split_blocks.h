// Code without a branch, cut where there is much of it.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Puts long sequences of statements without a loop into branches that are always taken, one after
/// the other: several of LLVM's passes take time with the square of the instructions between two
/// branches. Memory and names keep their scopes. `__user_context` must be in scope. To be called
/// last.
ir::Stmt split_blocks(const ir::Stmt& stmt);

}  // namespace tc::codegen
