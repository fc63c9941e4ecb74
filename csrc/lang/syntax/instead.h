// What to write for words that other languages have.
#pragma once

#include <string>

namespace tc::lang {

/// For a function: "; write min(a, b)"; else `otherwise`.
std::string function_instead(const std::string& name, const std::string& otherwise);
/// For a constant: "; write 1.0 / 0.0"; else `otherwise`.
std::string constant_instead(const std::string& name, const std::string& otherwise);

/// The whole message for a word that has no meaning where a statement or an operand stands, as
/// `not`, `lambda` or `return`; else empty.
std::string word_instead(const std::string& word);
/// For several symbols together, as -= or >>: "; write ..."; else empty.
std::string symbol_instead(const std::string& symbol);
/// For what stands behind a dot: "; a transpose ...".
std::string member_instead(const std::string& name);
/// For the word of a reduction, as in mean=!; empty where it is none.
std::string reduction_instead(const std::string& word);

}  // namespace tc::lang
