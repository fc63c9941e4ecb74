// What all terms of a sum are multiplied by.
#pragma once

#include <functional>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// A term of a sum as `term` times what all terms share.
struct SharedFactors {
  ExpressionPtr term;
  bool negative = false;
  std::vector<ExpressionPtr> factors, divisors;  ///< in order of appearance

  bool empty() const { return factors.empty() && divisors.empty(); }
  /// The same of a sum of such terms, where `sum` stands for that of `term`.
  ExpressionPtr apply(ExpressionPtr sum) const;
};

/// Whether both multiply and divide by the same, one thing at least, whatever their order and
/// signs.
bool have_same_factors(const SharedFactors& a, const SharedFactors& b);

/// Looks through products, quotients and signs of floats; `stays` tells whether a factor, or what
/// divides, is left to the terms, as one has to be that differs between them. What is left is of
/// the given type, the sum's. `term` comes back as it is, with nothing shared, where none is.
SharedFactors find_shared_factors(
    const ExpressionPtr& term, Type type,
    const std::function<bool(const ExpressionPtr&, bool divides)>& stays);

/// Leaves away what all terms of a sum, two at least, are divided by, and returns it.
std::vector<ExpressionPtr> take_out_divisors(std::vector<ExpressionPtr>* terms);

}  // namespace tc::lang
