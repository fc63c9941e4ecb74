// Sums over a short index that chooses their terms, or is an exponent in them, are written out.
#pragma once

#include "ir/program.h"

namespace tc::rewrite {

/// S(n) +=! k == 0 ? A(n) : B(n) with k in 0:2, as the gradient of a product of complex numbers has
/// it, becomes S(n) = A(n) + B(n): nothing is left to choose, and S may go where it is read. A
/// condition has to speak of the index alone, and no other index may be summed over: products that
/// are added up are left to those that know sums. Polynomials, S(n) +=! C(k) * pow(X(n), k) with k
/// in 0:5, are written out as well: powers by literals are a few products. Runs on a specialised
/// program whose indices count from 0, in front of those that decide conditions and inline
/// temporaries.
void unroll_choices(ir::Program& program);

}  // namespace tc::rewrite
