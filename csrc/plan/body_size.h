// How much code a statement becomes.
#pragma once

#include <cstdint>

#include "ir/halide.h"

namespace tc::plan {

/// Operations of one point of a reduction: more for calls, and for types that have no instructions
/// of their own. Those of subscripts are left out: increments are made of them.
int64_t count_operations(const ir::Expr& value);

}  // namespace tc::plan
