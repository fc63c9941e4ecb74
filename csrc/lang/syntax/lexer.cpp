#include "lang/syntax/lexer.h"

#include <algorithm>
#include <cctype>
#include <iomanip>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text_stream.h"

namespace tc::lang {
namespace {

// Longest first, so that the first match is the longest one. `min=` and its kin are one token, as
// in `O(i) max=! A(i, k)`.
constexpr const char* kSymbols[] = {"argmin=!", "argmax=!", "argmin=", "argmax=", "min=!", "max=!",
                                    "&&=!",     "||=!",     "min=",    "max=",    "+=!",   "*=!",
                                    "&&=",      "||=",      "<=>",     "+=",      "*=",    "->",
                                    "<=",       ">=",       "==",      "!=",      "&&",    "||",
                                    "+",        "-",        "*",       "/",       "%",     "(",
                                    ")",        "{",        "}",       ",",       ":",     "?",
                                    "=",        "<",        ">",       "!",       "."};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Blanks and controls beyond ASCII: copied text brings them in, and shows nothing between quotes.
bool is_invisible(char32_t code) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0x80, 0xa0},     {0xad, 0xad},     {0x2000, 0x200f}, {0x2028, 0x202f},
      {0x205f, 0x206f}, {0x3000, 0x3000}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

/// What to write for a sign that other languages have.
const char* written_instead(char32_t code) {
  switch (code) {
    case '[':
    case ']': return "; subscripts stand in parentheses: A(i, j)";
    case ';': return "; statements need no sign at their end";
    case '^': return "; a power is pow(x, y), and != says whether two bools differ";
    case '&': return "; write && for \"and\"; of an integer from 0 on, x & 7 is x % 8";
    case '|': return "; write || for \"or\"; there are no operations on the bits of integers";
    case '~': return "; write ! for \"not\"; of an integer, ~x is -x - 1";
    case '\'':
    case '"': return "; there are no strings, and infinity is 1.0 / 0.0";
    case '@': return "; a product of matrices is C(m, n) +=! A(m, k) * B(k, n)";
    default: return "";
  }
}

class Lexer {
 public:
  explicit Lexer(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}

  std::vector<Token> run() {
    for (;;) {
      bool new_line = skip_blanks() || tokens_.empty();
      if (at_ == text_->size()) {
        add(TokenKind::End, 0, new_line);
        return std::move(tokens_);
      }
      if (!tokens_.empty() && tokens_.back().is(".") && is_digit(peek())) {
        // The dimension of `T.1`: digits only, so that `T.1.` or `T.0e` do not become floats.
        size_t length = 0;
        while (is_digit(peek(length))) ++length;
        add(TokenKind::Integer, length, new_line);
        continue;
      }
      if (size_t length = symbol_length()) {
        add(TokenKind::Symbol, length, new_line);
        continue;
      }
      bool is_float = false;
      size_t number = number_length(&is_float), identifier = identifier_length();
      if (number && number >= identifier) {
        add(is_float ? TokenKind::Float : TokenKind::Integer, number, new_line);
      } else if (identifier) {
        add(TokenKind::Identifier, identifier, new_line);
      } else {
        Character character = character_at(*text_, at_);
        throw LanguageError(SourceRange(text_, at_, at_ + character.length), printable(character),
                            " starts no token of the language", written_instead(character.code));
      }
    }
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_->size() ? (*text_)[at_ + ahead] : '\0';
  }

  std::string printable(const Character& character) const {
    std::string bytes = text_->substr(at_, character.length);
    TextStream name;
    name << std::hex << std::setfill('0');
    if (!character.valid || character.code < 0x20 || character.code == 0x7f) {
      name << "'\\x" << std::setw(2) << static_cast<unsigned>(character.code) << "'";
      return name.str();
    }
    if (character.code < 0x80) return concat("'", bytes, "'");
    name << std::uppercase << "U+" << std::setw(4) << static_cast<unsigned>(character.code);
    return is_invisible(character.code) ? name.str() : concat("'", bytes, "' (", name.str(), ")");
  }

  void add(TokenKind kind, size_t length, bool first_on_line) {
    tokens_.push_back(
        {kind, text_->substr(at_, length), SourceRange(text_, at_, at_ + length), first_on_line});
    at_ += length;
  }

  /// Whether a newline was passed.
  bool skip_blanks() {
    bool new_line = false;
    for (;;) {
      // A NUL inside the text is an unknown character, not its end.
      if (at_ == text_->size()) return new_line;
      char c = peek();
      if (c == '#') {
        while (at_ < text_->size() && peek() != '\n') ++at_;
      } else if (c == '\n') {
        new_line = true;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\\') {
        // A backslash before a line break is allowed and means nothing: lines never end statements.
        if (c == '\\' && peek(1) != '\n' && peek(1) != '\r') return new_line;
        ++at_;
      } else {
        return new_line;
      }
    }
  }

  size_t symbol_length() const {
    // `.5` is a number, but the dot of `T.5` is an operator.
    const bool after_name = !tokens_.empty() && tokens_.back().kind == TokenKind::Identifier &&
                            tokens_.back().where.end() == at_;
    if (peek() == '.' && is_digit(peek(1)) && !after_name) return 0;
    for (const char* symbol : kSymbols) {
      std::string_view view(symbol);
      if (text_->compare(at_, view.size(), view) != 0) continue;
      // `a min== b` is a comparison of something called min, never the operator `min=`.
      bool comparison = view == "<=" || view == ">=" || view == "==" || view == "!=";
      if (view.back() == '=' && view.size() > 1 && !comparison && peek(view.size()) == '=')
        continue;
      return view.size();
    }
    return 0;
  }

  size_t identifier_length() const {
    size_t length = 0;
    bool letter = false;
    for (; is_word(peek(length)); ++length) letter = letter || !is_digit(peek(length));
    return letter ? length : 0;
  }

  size_t number_length(bool* is_float) const {
    *is_float = false;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
      size_t length = 2;
      while (std::isxdigit(static_cast<unsigned char>(peek(length)))) ++length;
      return length > 2 ? length : 0;
    }
    size_t length = 0, digits = 0;
    for (; is_digit(peek(length)); ++length) ++digits;
    if (peek(length) == '.') {
      size_t fraction = 0;
      while (is_digit(peek(length + 1 + fraction))) ++fraction;
      if (digits + fraction == 0) return 0;
      digits += fraction;
      length += 1 + fraction;
      *is_float = true;
    }
    if (digits == 0) return 0;
    if (peek(length) == 'e' || peek(length) == 'E') {
      size_t exponent = length + 1;
      if (peek(exponent) == '+' || peek(exponent) == '-') ++exponent;
      size_t first = exponent;
      while (is_digit(peek(exponent))) ++exponent;
      if (exponent > first) {
        length = exponent;
        *is_float = true;
      }
    }
    if (*is_float && (peek(length) == 'f' || peek(length) == 'F')) ++length;
    return length;
  }

  std::shared_ptr<const std::string> text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::shared_ptr<const std::string>& text) {
  return Lexer(text).run();
}

}  // namespace tc::lang
