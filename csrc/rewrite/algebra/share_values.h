// Values that several statements compute alike are computed once.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Common subexpression elimination between statements: Z(n) +=! exp(X(n, d) - M(n)) and
/// O(n, d) = exp(X(n, d) - M(n)) / Z(n) get a statement in front, Z.values(n, d) = exp(X(n, d) -
/// M(n)), and read that. The largest common values with calls of functions are taken, or the part
/// with all the calls that has fewer points, as cos(t(b)*w(k)) of A(b, d)*cos(t(b)*w(k)), where
/// what they take is more than writing and reading an element does: little where the statements
/// have indices in common, along which they may share loops and what lies between these stays in a
/// cache. One of the statements at least computes the value at all points, whatever the others
/// choose. Runs on a specialised program; adds the layouts of its temporaries.
void share_values(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
