// Dimensions that every access walks together become one.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// Merges neighbouring dimensions (d, d + 1) of tensors and the two iterators that address them,
/// where that is exact: the tensors are contiguous across the pair, every access of every statement
/// that touches them uses a pair of iterators there, over their whole extents, and nothing else
/// uses these iterators. An iterator of one iteration is no part of a read's subscript. (n, c, h,
/// w) + (c) becomes (n, c, hw) + (c): longer vectors, fewer loops, smaller polyhedra. Runs on a
/// specialised program, before scop; changes layouts accordingly.
void collapse_dimensions(Program& program, Layouts& layouts);

}  // namespace tc::ir
