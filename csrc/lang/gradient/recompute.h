// Forward values that a derivative is made of.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"

namespace tc::lang {

/// An assignment of 0 to every element of the step's tensor, under another name: a scatter, or a
/// statement that writes a part, does not say how large its tensor is.
GradientStatement all_zeros(const std::string& target, const Step& step);

struct Recomputed {
  std::vector<GradientStatement> statements;  ///< names in place of versions
  std::set<std::string> saved;                ///< results whose values are read
  std::set<std::string> versions;             ///< that are computed again
};

/// Puts in front of `statements` those that compute the versions they read, as far as these are not
/// in `saved` (version to name). Reads then name tensors.
Recomputed recompute(const Versions& versions, const std::vector<GradientStatement>& statements,
                     const std::map<std::string, std::string>& saved, FreshNames* names);

}  // namespace tc::lang
