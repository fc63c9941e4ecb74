// Tokens of TC text. Keywords of the expression language (`where`, `in`, `exists`, `min`, type
// names) are identifiers here: whether one is a keyword depends on its place, and the parser knows.
#pragma once

#include <string>

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

}  // namespace tc::lang
