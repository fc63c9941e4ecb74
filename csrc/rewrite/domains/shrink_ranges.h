// Reductions run over the terms that count.
#pragma once

#include "ir/program.h"

namespace tc::rewrite {

/// O(n) +=! k < K / 2 ? X(n, k) : 0 sums over k in 0:K/2. Of a reduction whose other terms are its
/// identity, conditions on one index of the reduction that hold on an interval become its range.
/// Runs on a specialised program, where indices may still begin anywhere.
void shrink_ranges(ir::Program& program);

}  // namespace tc::rewrite
