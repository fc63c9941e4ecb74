// Size expressions for hosts that compute shapes symbolically.
#pragma once

#include <string>

#include "ir/halide.h"

namespace tc::runtime {

/// The expression in Python's syntax: names, integers, + - * // % < <= == != & |, min(a, b),
/// max(a, b) and select(condition, a, b). Words would be names of sizes too. Division and remainder
/// round down in both languages.
/// ShapeError for what no int32 holds.
std::string size_text(const ir::Expr& size);

}  // namespace tc::runtime
