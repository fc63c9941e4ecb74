// The layout of a copy as options write it: (1, 0), or with blocks ("k/4", "n", "k%4").
#pragma once

#include <optional>
#include <string>

#include "base/python_calls.h"
#include "poly/copy_layout.h"

namespace tc::plan {

/// Dimensions are numbers, or are called as the read, "B(k, n)", has them; nothing where some value
/// is neither, or has no block of at least one element.
std::optional<poly::CopyLayout> order_of(const PythonValue& value, const std::string& read);

/// Numbers where nothing is blocked; otherwise names of dimensions whose subscript is an index.
PythonValue order_value(const poly::CopyLayout& layout, const std::string& read);

}  // namespace tc::plan
