// Tokens to an unchecked tree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/syntax/lexer.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

/// The definitions of a text in order; names and types are not looked at. LanguageError at the
/// first token that does not fit the grammar of docs/language.md.
std::vector<Function> parse_text(const std::string& text);

/// How an operator is written, and how tightly it binds (larger is tighter). Ternaries bind at 1.
const char* spelling(Operator op);
int precedence(Operator op);
/// The operator that a token is between two operands.
std::optional<Operator> binary_operator(const Token& token);

}  // namespace tc::lang
