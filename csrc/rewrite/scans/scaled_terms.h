// Terms of sums without what multiplies or divides all terms of a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {

/// A term as a value times or through factors.
struct ScaledTerm {
  Expr value;  ///< has not the result's index
  /// Those that have the result's index, and not the term's; with weights also those that have
  /// neither.
  std::vector<Factor> factors;
  std::vector<Factor> weights;  ///< those that have both
};

/// Of a term q(r) * x(t) * w(r, t) / z(r) the value x(t), the factors q(r) and 1 / z(r), and the
/// weight w(r, t). Nothing of integers, and where the result's index is nowhere in it.
std::optional<ScaledTerm> find_scaled(const Statement& statement, const Expr& value,
                                      const std::string& result, const std::string& term);

/// Whether the factors, and the reciprocals of those that divide, are finite numbers at all points
/// of the domain, so that a zero multiplied by them is one.
bool keep_zero(const std::vector<Factor>& factors, const std::vector<Iterator>& domain);

}  // namespace tc::ir
