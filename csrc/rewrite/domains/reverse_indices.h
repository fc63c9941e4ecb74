// Indices that memory is walked backwards along are reversed.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::rewrite {

/// O(i, j) = X(j, N - 1 - i), a picture on its side, becomes O(N - 1 - i, j) = X(j, i): of a
/// statement without reduction, an index along which something is read backwards and nothing is
/// walked forwards counts down, so that what lies along it is found to do so. Runs on a specialised
/// program whose indices count from 0.
void reverse_indices(ir::Program& program, const Layouts& layouts);

}  // namespace tc::rewrite
