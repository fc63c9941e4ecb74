// Trees back to text.
#pragma once

#include <string>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Canonical text: one spelling of every type and builtin, least parentheses, one statement a line.
/// Parses to the same tree.
std::string print(const Function& function);

/// The same with every name replaced by its kind and number: equal for checked trees that differ in
/// names only, the definition's own included.
std::string print_key(const Function& function);

}  // namespace tc::lang
