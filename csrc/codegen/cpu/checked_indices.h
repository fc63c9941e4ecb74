// Subscripts that loops of the CPU look at while they use them.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// A function that generated code calls after a bad index: (context of the launch, check) -> 0.
constexpr char kBadIndex[] = "tc_bad_index";

/// Replaces calls of ir::checked_index. Of vectors, an index becomes the smaller of itself and the
/// largest inside, both without sign; the largest of all that a parallel task or the rest of the
/// function has seen are kept in a vector beside the loops, which takes an instruction, and looked
/// at in the end: one that is outside is handed to kBadIndex. A store that one index decides is
/// left out where that is bad. Statements that only prefetch memory ahead of its use are not
/// checked.
///
/// Runs after vectorisation and unrolling, before common subexpressions are named.
ir::Stmt expand_checked_indices(const ir::Stmt& stmt);

/// Names the context of the launch around a function's body where checks hand it on.
/// `__user_context` must be in scope there, and in no task: where its closure holds that of the
/// caller, what it allocates comes from there. To be called after the last simplification.
ir::Stmt define_launch(const ir::Stmt& stmt);

}  // namespace tc::codegen
