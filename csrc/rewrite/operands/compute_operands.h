// Values that are computed, or under conditions of indices, from fewer indices than their statement
// has: written out first where they are used often.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// A reduction over A(m, k)*exp(B(n, k)), for many m, gets a statement in front, B.computed(n, k) =
/// exp(B(n, k)), and reads that instead; so does one over (1 <= h + kh && h + kh <= H ? I(c, h + kh
/// - 1) : 0), with I.padded(c, y) = (1 <= y && y <= H ? I(c, y - 1) : 0) read at h + kh. Everything
/// is computed and decided once for every element, and the operand can be copied and loaded like
/// any other; where it is copied, the copy may compute it (plan/forms/computed_copies). That is
/// done for floats, for choices and for windows that are clamped, as x(min(t + k, T - 1)), where an
/// operand is one of what the subscripts of its reads take, or are functions of, as k of scale(n,
/// k/32), each of its own indices, without gaps, where every element is used often enough for its
/// operations to pay for a statement, and where the temporary is not much larger than what is there
/// anyway. Sums of products may combine factors in another order for it: A(m, k)*B(n, k)*s(k) as
/// A(m, k)*(B(n, k)*s(k)). Functions may have indices as arguments, as cos(a(f)*t) in X(b, t)*
/// cos(a(f)*t); so may those of a sum under a condition of indices, as pow(a, t-k) in k <= t ?
/// X(k)*pow(a, t-k) : 0, where the condition is not what keeps their reads inside. Statements
/// without a reduction have values of fewer indices written out, cos(s*f(d)) of O(b, s, h, d), if
/// these differ along rows of the result: loops around a row compute others once anyway; so have
/// the terms and scales of scans. Runs on a specialised program, before collapse_dimensions; adds
/// the layouts of its temporaries.
void compute_operands(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
