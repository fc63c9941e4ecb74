// Subscripts that are quotients of sums: (y + i) / 2.
#pragma once

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {

/// Makes quotients of a sum of indices by a number exact, as that of X((y + i) / 2), an image that
/// is read twice as large by a window: the remainder becomes an index of its own, r, and the
/// subscript (y + i - r) / 2, under the condition that this has no rest. An element then decides y.
/// Left alone are sums that may be negative, unless a guard says that they are not, those of more
/// than indices and sizes, and what other numbers divide as well. Returns whether there was one.
bool name_remainders(Contribution* contribution, const ir::Program& signature,
                     const FreshNames& names);

}  // namespace tc::lang
