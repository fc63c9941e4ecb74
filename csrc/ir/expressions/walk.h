// Walks over expressions by plain functions.
#pragma once

#include <functional>

#include "ir/halide.h"

namespace tc::ir {

/// The expression and its parts, those around others first. `enter` says whether to go on into the
/// parts of what it is given.
void walk(const Expr& e, const std::function<bool(const Expr&)>& enter);

/// The expression with parts replaced: from the outside in, by what `replace` makes of one, or,
/// where that is undefined, of its parts. Into parts that are shared it goes once.
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& replace);

}  // namespace tc::ir
