// Vectors of quotients by a number that is the same in all iterations of a loop.
#pragma once

#include "ir/halide.h"
#include "machine/cpu.h"

namespace tc::codegen {

/// Computes x / d, where the innermost serial loop around vectors leaves d alone, from 1 / d by a
/// product and a correction with two multiply-adds: on many processors, a vector division takes
/// four times as long. Where it hides behind the loop's other arithmetic, it stays.
/// Where 2^-20 < d < 2^20, which is asked before the loop, the result is that of a division bit for
/// bit, infinities, NaN and the sign of zero included, but where x or the quotient is almost
/// denormal (2^-100 for float, 2^-900 for double): there it may be off by one in the last place.
/// And where the quotient is the largest number, the product may round up to an infinity, which
/// nothing corrects: to scale it would take one more operation for every vector.
/// Other divisors are divided by. To be called where multiply-adds round once, after lower_math.
///
/// Source: P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
/// processor", IBM J. Res. Dev. 34(1), 1990, section 7.
ir::Stmt multiply_by_reciprocals(const ir::Stmt& stmt, const CpuMachine& machine);

}  // namespace tc::codegen
