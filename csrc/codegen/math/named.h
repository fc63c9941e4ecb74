// Names for values that an expression uses several times.
#pragma once

#include <functional>

#include "ir/halide.h"

namespace tc::codegen {

/// `use` of a name for `value`, or of the value itself where that is as short. Halide's passes walk
/// expressions as trees: a function of a function of a function that uses each argument three times
/// would grow to 27 copies of the innermost.
ir::Expr named(const ir::Expr& value, const std::function<ir::Expr(const ir::Expr&)>& use);

}  // namespace tc::codegen
