// Sums over an index of which only every other value counts.
#pragma once

#include <string>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {

/// Where a guard says that a quotient has no rest, (y - k) % 2 == 0, replaces one of the
/// `remaining` indices by the quotient: y = 2 * q + k, so that no term of a sum over y is left out.
/// The guards have to bound q from both sides. Returns whether an index was replaced; it then is no
/// longer a place of `source`.
bool sum_over_quotients(Contribution* contribution, const std::vector<std::string>& remaining,
                        const ir::Program& signature, const FreshNames& names);

}  // namespace tc::lang
