// Sums of products of several factors are taken in the order that costs least.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// A sum of products and quotients, R(i, r) +=! X(i, j, k)*B(j, r)*C(k, r), gets a statement in
/// front, R.over_k(i, j, r) +=! X(i, j, k)*C(k, r), and reads that instead: k is summed for a
/// product of two, and j for one of fewer points. Of all orders of so few factors, those that
/// multiply first what is summed later among them, R.product(b, j, k) = X(b, j)*X(b, k), the one
/// with the least operations is taken, the traffic of temporaries counted (rewrite/algebra/
/// contractions; of many factors, pairs are joined until few are left). What several statements, or
/// several factors of one, would make alike, up to the names of indices, is made once: the terms of
/// the derivative of a cubic form have most of their products in common. Which ones is found by
/// searching the order of each statement again, with what the others make for nothing. Factors that
/// depend on an index only by a place, as on n in W(e(n), p, c), are multiplied and summed for all
/// places, where these are fewer. So is a separable window, R(i, j) +=! X(i + r, j + s)*g(r)*h(s),
/// of which X depends on i and r by their sum alone: R.over_r(i, j_s) +=! X(i + r, j_s)*g(r), and
/// then R(i, j) +=! R.over_r(i, j + s)*h(s). Sums of indices are places where they take all values
/// between their ends, and as long as the temporary is not much larger than a tensor of the text.
///
/// A factor that scales all terms stays with them, so that sums are no larger than in the text. Of
/// conditions that choose between a product and 0, an inner sum has those that speak of what it
/// sums over or keep its reads inside, where it has all of their indices; the others stay at the
/// outer sum, all of them where one has data, unless a scan costs less (find_scans). Left alone are
/// products of two tensors, sums of integers and those under guards. Runs on a
/// specialised program, after widen_accumulators; adds the layouts of its temporaries.
void nest_sums(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
