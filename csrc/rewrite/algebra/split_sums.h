// Sums of several products become a sum for each.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// R(b) +=! G(b, d)*A(k, d)*P(b, k) + G(b, d)*C(k, d)*Q(b, k) becomes R(b) +=! G(b, d)*A(k, d)*P(b,
/// k) and R(b) += G(b, d)*C(k, d)*Q(b, k), for share_sums and nest_sums, which know sums of one
/// product (loop fission). Each addend is a sum of its own that nest_sums takes to products of
/// fewer tensors, if all of them cost less then; the others stay together. A factor that is a sum
/// of products, as in M(t)*(X(c, t)*X(d, t) + Y(c, t)*Y(d, t)), is multiplied out. All addends are
/// products over all indices of the sum: C(t) - C(s) may be small where sums of both are large.
/// Left alone are sums of integers and those under guards and conditions. Runs on a specialised
/// program, in front of share_sums.
void split_sums(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
