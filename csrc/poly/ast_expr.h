// isl's AST expressions as Halide expressions.
#pragma once

#include <map>
#include <string>

#include "ir/program.h"
#include "poly/isl.h"

namespace tc::poly {

/// isl's iterator variables become Halide variables through `iterators`; conditions become Bool.
ir::Expr to_expr(const isl::ast_expr& expr, const std::map<std::string, ir::Expr>& iterators);

}  // namespace tc::poly
