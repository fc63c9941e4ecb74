// What to write for words that other languages have.
#pragma once

#include <string>

namespace tc::lang {

/// For a function: "; write min(a, b)"; else `otherwise`.
std::string function_instead(const std::string& name, const std::string& otherwise);
/// For a constant: "; write 1.0 / 0.0"; else `otherwise`.
std::string constant_instead(const std::string& name, const std::string& otherwise);

}  // namespace tc::lang
