// Guards of vectorised code: lanes that a condition leaves out must not read memory.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// A lazy choice (Call::if_then_else) of vectors becomes a select whose loads are predicated by the
/// condition; the parts of the condition that are the same in every lane become a branch around it.
/// Without this, Halide computes such choices lane by lane. Runs after vectorize_loops.
ir::Stmt predicate_guarded_loads(const ir::Stmt& stmt);

/// Names the constants at which vectors begin below 0, of which a guard has switched off some
/// lanes, or run backwards. Halide derives from constant addresses which accesses are apart, and
/// its rule holds for neither. To be called last: simplification undoes it.
ir::Stmt hide_negative_offsets(const ir::Stmt& stmt);

}  // namespace tc::codegen
