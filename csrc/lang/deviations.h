// Sums that are zero whatever the data: those of deviations from their own mean.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lang/ranges.h"
#include "lang/tree.h"
#include "lang/versions.h"

namespace tc::lang {

/// Whether `term`, summed over `summed`, is the difference of an element and the mean of just these
/// elements: X(n, d) - M(n) over d, where M(n) = S(n) / D and S(n) +=! X(n, d). `ranges` has those
/// of the indices. Reads name versions.
bool is_deviation(const ExpressionPtr& term, const std::vector<std::string>& summed,
                  const std::map<std::string, Range>& ranges, const Versions& versions,
                  const ir::Program& signature);

}  // namespace tc::lang
