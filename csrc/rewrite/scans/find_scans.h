// Reductions over all that lies up to an index become scans.
#pragma once

#include <optional>

#include "ir/program.h"

namespace tc::ir {

/// The results of O(n, d) +=! k <= d ? X(n, k) : 0 are one another's: each is the one before plus a
/// term, O(n, d) = O(n, d - 1) + X(n, d), so that a row takes as many steps as it has elements, not
/// as many as their square (simplification of reductions by reuse along the results; Gautam and
/// Rajopadhye, Simplifying reductions, POPL 2006, section 3). The same from the last result to the
/// first where k >= d. That is done for sums, products, and extremes of numbers where the condition
/// compares a reduction index with a result index at a constant distance, such that a result has at
/// most one term more than its neighbour; where what is compared elsewhere is no identity, it has
/// to be the same for all terms, and the reduction an extreme. What all terms of a result are
/// multiplied or divided by is left to a statement behind the scan, which is in double then, so
/// that a sum that the text keeps small stays finite. Where such factors have other indices of
/// the reduction, as in O(t, e) +=! s <= t ? Q(t, d) * K(s, d) * V(s, e) : 0, each point of these
/// has a scan of its own, S(t, d, e), if that costs less, and O(t, e) +=! Q(t, d) * S(t, d, e).
/// Where terms decay with their distance, as in O(t, d) +=! s <= t ? pow(A(d), t - s) * X(s, d) :
/// 0, the neighbour is multiplied by the decay of a step (linear_recurrences); terms of extremes
/// that move with their distance, as X(s, d) - (t - s) * A(d), have a step that is added. Sums of
/// exponentials below a running maximum are scaled by how much that rises (rescaled_sums). Scans
/// that sum the same are one. What a term sums over other indices is summed first, and conditions
/// of the result alone are asked once. Where M is such a scan of integers that only grows or only
/// falls, a condition M(n, k) == M(n, d) starts the sums anew wherever M changes (segmented scans;
/// Blelloch, Prefix sums and their applications, 1990, section 1.5). Runs on a specialised program
/// whose indices count from 0, after widen_accumulators.
void find_scans(Program& program);

/// The operations of the scan that such a statement becomes; nothing where it becomes none.
std::optional<double> scan_operations(const Program& program, const Statement& statement);

}  // namespace tc::ir
