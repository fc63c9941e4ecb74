// Values that are used where they are made need no memory.
#pragma once

#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// Where every load of a temporary, or of a buffer that the statement allocates, follows a store to
/// the same element in the same iteration, the value gets a name, loads become that name, and
/// nothing is stored: a chain of elementwise statements in one loop passes its values on in
/// registers. Of other temporaries all accesses stay. Runs after vectorize_loops and unroll_loops,
/// when a vector is an expression.
ir::Stmt forward_values(const ir::Stmt& stmt, const std::set<std::string>& temporaries);

}  // namespace tc::codegen
