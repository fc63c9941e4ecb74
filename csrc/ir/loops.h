// Small rewrites of loop nests that both targets use.
#pragma once

#include "ir/halide.h"

namespace tc::ir {

/// Directly nested loops of one type become one loop over all their iterations, as far as the inner
/// bounds do not depend on the outer iterator and extents are constant: the outer one varies
/// slowest. `type` is Parallel or GPUBlock.
Stmt collapse_loops(const Stmt& stmt, ForType type);

/// The widest element in bits among what the statement loads and stores; 0 when it touches none.
int widest_element(const Stmt& stmt);

}  // namespace tc::ir
