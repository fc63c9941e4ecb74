// The usual layout of a text, for `python -m tensor_comprehensions fmt`.
#pragma once

#include <string>

namespace tc::lang {

/// The same tokens and comments in the layout of ops/*.tc: four blanks, one statement a line,
/// breaks beyond 100 columns, single empty lines where there were some. Only the grammar is
/// checked, not names and types: LanguageError as from parse_text. Formatting the result changes
/// nothing.
std::string format(const std::string& text);

}  // namespace tc::lang
