// Which sums of a derivative are zero, whatever the data.
#pragma once

#include <memory>
#include <vector>

#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/versions.h"

namespace tc::lang {

/// Tells by trying: statements are evaluated in the integers modulo a prime, for a few small sizes,
/// with random elements of the inputs and of the gradients that are given. Functions, comparisons
/// of floats and extremes give a random number for every different argument; a choice by such a
/// condition c is c * a + (1 - c) * b. Small sizes say what there is to add up, and where; as parts
/// of values sizes and indices are random numbers, and the values of an index count as often as
/// makes a size's ones add up to that number: a polynomial of sizes is not zero because it is for
/// small ones. Where an input is read at a place that small sizes do not have, or by data,
/// quotients, remainders or extremes, the element is a random number of what its subscripts are
/// made of. A sum of rational expressions that is zero for several such choices is zero in exact
/// arithmetic (Schwartz, Fast probabilistic algorithms for verification of polynomial identities,
/// 1980): the chance of a mistake is that of a root, below 2^-40. Deviations from a mean add up to
/// zero in this way, and what a softmax's largest element would receive.
class ZeroSums {
 public:
  /// `statements` are those of the derivative so far; both are looked at when asked.
  ZeroSums(const Versions& versions, const ir::Program& signature,
           const std::vector<GradientStatement>& statements);
  ~ZeroSums();

  /// Whether what the last of the statements adds, behind those that there are, is zero everywhere;
  /// with `together`, all that they write to its target.
  /// False where that is not known: where it scatters, has no size small enough, or takes long.
  bool are_zero(const std::vector<GradientStatement>& more, bool together);

 private:
  class Trial;
  void add_trial();

  const Versions& versions_;
  const ir::Program& signature_;
  const std::vector<GradientStatement>& statements_;
  std::vector<std::unique_ptr<Trial>> trials_;
};

}  // namespace tc::lang
