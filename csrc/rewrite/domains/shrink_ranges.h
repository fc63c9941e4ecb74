// Reductions run over the terms that count, for the results that have some.
#pragma once

#include "ir/program.h"

namespace tc::rewrite {

/// O(n) +=! k < K / 2 ? X(n, k) : 0 sums over k in 0:K/2. Of a reduction whose other terms are its
/// identity, conditions on one index of the reduction that hold on an interval become its range.
/// O(n, m) +=! n < 8 && m < 8 ? X(n, k) * Y(k, m) : 0, as the gradient of a convolution that leaves
/// out the last pixels has it, sums for n and m in 0:8: conditions on indices of results alone that
/// hold in a box become their ranges, and statements of their own set what lies around it, where no
/// other statement is about this tensor and no condition ties terms to results, as those of scans
/// do. Runs on a specialised program, where indices may still begin anywhere.
void shrink_ranges(ir::Program& program);

}  // namespace tc::rewrite
