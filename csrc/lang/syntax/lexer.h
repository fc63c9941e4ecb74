// Text to tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lang/syntax/token.h"

namespace tc::lang {

/// All tokens of the text, ended by one of kind End. `#` starts a comment. An identifier may start
/// with a digit; where a number and an identifier are equally long the number wins (`1e5`, `0x1F`).
/// LanguageError at a character that starts no token.
std::vector<Token> tokenize(const std::shared_ptr<const std::string>& text);

}  // namespace tc::lang
