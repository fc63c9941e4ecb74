// Integer expressions at given values of their variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ir/halide.h"

namespace tc::ir {

/// What the expression is for these values of its variables, computed in 64 bits: right for
/// expressions no step of which leaves int32 or int64, as `exact_subscript` makes them. Nothing
/// where it holds another variable, data, a call or numbers that are not integers, and where a step
/// of another type wraps around.
std::optional<int64_t> integer_value(const Expr& e, const std::map<std::string, int64_t>& values);

}  // namespace tc::ir
