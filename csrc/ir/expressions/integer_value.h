// Integer expressions at given values of their variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ir/halide.h"

namespace tc::ir {

/// What the expression is for these values of its variables, computed in 64 bits: right for
/// expressions no step of which leaves its type, as `exact_subscript` makes them. Nothing where it
/// holds another variable, data, a call or numbers that are not integers.
std::optional<int64_t> integer_value(const Expr& e, const std::map<std::string, int64_t>& values);

}  // namespace tc::ir
