// Between Halide expressions and isl: subscripts become isl text, isl AST expressions become
// Halide expressions.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/program.h"
#include "poly/isl.h"

namespace tc::poly {

/// The expression in isl's syntax when it is quasi-affine in the given variables: sums, products
/// and quotients with constants, C's `/` and `%` where the dividend cannot be negative, min and max
/// are not. `names` maps variables to isl names; `domain` gives the ranges that prove dividends
/// non-negative. Nothing when it is not affine (it reads data, multiplies indices, ...).
std::optional<std::string> affine_text(const ir::Expr& expr,
                                       const std::map<std::string, std::string>& names,
                                       const std::vector<ir::Iterator>& domain);

/// The same for a condition: comparisons of affine expressions joined by && and ||, and negation.
std::optional<std::string> affine_condition(const ir::Expr& expr,
                                            const std::map<std::string, std::string>& names,
                                            const std::vector<ir::Iterator>& domain);

/// isl's iterator variables become Halide variables through `iterators`; conditions become Bool.
ir::Expr to_expr(const isl::ast_expr& expr, const std::map<std::string, ir::Expr>& iterators);

}  // namespace tc::poly
