// Reads that need no guard get rid of it.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::rewrite {

/// Of a value that a condition on indices guards, O(i) += inside(i) ? X(2 * i) * Y(i - 1) : 0, the
/// reads that stay inside their tensors in any case are taken out of it, and each of the others
/// gets the guard for itself: a vector of X is then loads of neighbours, where under a guard it
/// would be gathered. That is done where there is such a read, at a small distance from lane to
/// lane. Sets say what is inside; where indices are multiplied, they know nothing, and intervals
/// may. Runs on a specialised program.
void free_reads(ir::Program& program, const Layouts& layouts);

}  // namespace tc::rewrite
