// Text to tokens. Keywords of the expression language (`where`, `in`, `exists`, `min`, type names)
// are identifiers here: whether one is a keyword depends on its place, and the parser knows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/source.h"

namespace tc::lang {

enum class TokenKind {
  End,
  Identifier,
  Integer,
  Float,
  Symbol,  ///< an operator or punctuation, told apart by its text
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;
  SourceRange where;
  bool first_on_line = false;

  bool is(const char* symbol) const { return kind == TokenKind::Symbol && text == symbol; }
  bool is_word(const char* word) const { return kind == TokenKind::Identifier && text == word; }
};

/// All tokens of the text, ended by one of kind End. `#` starts a comment. An identifier may start
/// with a digit; where a number and an identifier are equally long the number wins (`1e5`, `0x1F`).
/// LanguageError at a character that starts no token.
std::vector<Token> tokenize(const std::shared_ptr<const std::string>& text);

}  // namespace tc::lang
