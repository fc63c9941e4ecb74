// Indices that are read by their digits: y / 3 and y % 3.
#pragma once

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {

/// Replaces an index from 0 whose quotients and remainders by numbers, sizes and their products
/// stand in the subscripts by an index for each digit, the least significant first: y = 3 * y_1 +
/// y_0, y / 3 = y_1, y % 3 = y_0. The divisors have to divide each other in turn. Where multiples
/// of the largest do not fill the range, a guard says what belongs to it, if that is a number.
/// Returns whether an index was split; the indices are then no longer the places of `source`.
bool split_digits(Contribution* contribution, const ir::Program& signature,
                  const FreshNames& names);

}  // namespace tc::lang
