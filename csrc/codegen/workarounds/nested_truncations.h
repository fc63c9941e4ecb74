// Floats that are truncated, computed of floats that are truncated.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Puts calls in the place of truncations (see lang/lowering/lowering) that are computed of others.
/// The complements that these are made of are walked through four times by Halide's simplifier, and
/// so is every truncation inside another one, four times as often. To be called before
/// simplification.
ir::Stmt hide_nested_truncations(const ir::Stmt& stmt);

/// The inverse. To be called after the last simplification.
ir::Stmt show_nested_truncations(const ir::Stmt& stmt);

}  // namespace tc::codegen
