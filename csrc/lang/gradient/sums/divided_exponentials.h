// Gradients of exponentials that a result divides, as a softmax does.
#pragma once

#include <optional>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"

namespace tc::lang {

/// What an exponential's argument receives, by other names.
struct DividedExponential {
  std::vector<Contribution> contributions;  ///< what the exponential receives, times the divisor
  ExpressionPtr result;                     ///< the exponential over the divisor, as a read
};

/// Of e = exp(x), of which the result O = e / t is made, and which receives multiples of 1 / t
/// alone, since all other uses of it lead to t: g / t * e is g * O, so that neither e nor t has to
/// be known. For a softmax this is its usual derivative, (d_O - sum of d_O * O) * O. `step` makes
/// e, `quotient` makes O; `statements` are those of the derivative so far, whose quotients are
/// looked into. Nothing where the pattern is another.
std::optional<DividedExponential> divided_exponential(
    const Step& step, const Step& quotient, const std::vector<Contribution>& contributions,
    const std::vector<GradientStatement>& statements, const ir::Program& signature);

/// Whether the step's value is a quotient of floats of the step's type.
bool is_quotient(const Step& step);

}  // namespace tc::lang
