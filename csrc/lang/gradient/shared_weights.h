// What several reads of one statement receive, computed once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"

namespace tc::lang {

/// Where the contributions of a step are long together, as those of the square of a wide stencil:
/// statements for the weights that several of them have, which read these then. What guards keep
/// from being evaluated stays behind them. LanguageError where a single contribution is too large
/// for a statement. `type_of` gives the types of what receives.
std::vector<GradientStatement> share_weights(const Step& step,
                                             std::vector<Contribution>* contributions,
                                             const std::function<Type(const std::string&)>& type_of,
                                             FreshNames* names);

}  // namespace tc::lang
