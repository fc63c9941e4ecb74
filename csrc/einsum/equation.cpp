#include "einsum/equation.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>

#include "base/error.h"

namespace tc::einsum {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(std::make_shared<const std::string>(text)) {}

  Equation parse() {
    Equation equation;
    do {
      equation.operands.push_back(operand());
    } while (take(','));
    if (peek() == '-') {
      size_t arrow = at_++;
      if (!take('>')) fail(range(arrow), "-> stands between the operands and the output");
      equation.output = operand(/*is_output=*/true);
    }
    if (!at_end()) unexpected(equation.output ? "the output" : "the equation");
    return equation;
  }

 private:
  /// The next character that is no blank; 0 at the end.
  char peek() {
    while (at_ < text_->size() && std::isspace(static_cast<unsigned char>((*text_)[at_]))) ++at_;
    return at_ < text_->size() ? (*text_)[at_] : '\0';
  }
  bool at_end() { return peek() == '\0' && at_ >= text_->size(); }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }

  SourceRange range(size_t begin) const { return SourceRange(text_, begin, std::max(at_, begin)); }
  /// The character at the current place, whatever its width.
  SourceRange here() {
    peek();
    if (at_ >= text_->size()) return SourceRange(text_, text_->size(), text_->size());
    return SourceRange(text_, at_, at_ + character_at(*text_, at_).length);
  }
  template <class... Parts>
  [[noreturn]] static void fail(const SourceRange& where, const Parts&... parts) {
    throw LanguageError(where, parts...);
  }
  [[noreturn]] void unexpected(const std::string& place) {
    SourceRange where = here();
    if (where.str().empty()) fail(where, "the equation ends within ", place);
    std::string way_out;
    char c = where.str()[0];
    if (is_digit(c)) way_out = "; integers stand in parentheses, as in (2*h + 1)";
    if (c == '+' || c == '-' || c == '*')
      way_out = "; sums and products stand in parentheses, as in (2*h + r)";
    if (c == '[') way_out = "; lookups stand in parentheses, as in (h + t[c])";
    if (c == ')') way_out = "; there is no ( before it";
    fail(where, "expected labels (letters), ( or ... in ", place, ", found ", where.str(), way_out);
  }

  bool take_ellipsis(Operand* result) {
    if (peek() != '.') return false;
    size_t begin = at_;
    if (text_->compare(at_, 3, "...") != 0) fail(here(), "an ellipsis has three points: ...");
    at_ += 3;
    if (result->ellipsis) fail(range(begin), "an operand has one ellipsis (...)");
    result->ellipsis = result->indices.size();
    return true;
  }

  /// An operand or the output, which is made of labels alone.
  Operand operand(bool is_output = false) {
    Operand result;
    peek();
    size_t begin = at_;
    while (true) {
      char c = peek();
      if (take_ellipsis(&result)) continue;
      if (c != '(' && !is_letter(c)) break;
      size_t first = at_;
      Index index = c == '(' ? parentheses() : plain_index();
      if (is_output && c == '(')
        fail(range(first), "the output is made of labels; name the index of an operand by itself");
      for (const Index& other : result.indices) {
        if (is_output && other.label() == index.label())
          fail(index.where, "label ", label_text(index.label()),
               " stands in the output twice; a diagonal of an operand is written, as in ii -> i, "
               "but none of the output");
      }
      result.indices.push_back(index);
    }
    result.where = range(begin);
    if (is_output && peek() == ',')
      fail(here(), "an equation has one output; call einsum once for each");
    if (!is_output && !at_end() && peek() != ',' && peek() != '-') unexpected("the equation");
    return result;
  }

  Label label() { return static_cast<unsigned char>((*text_)[at_++]); }

  Index plain_index() {
    size_t begin = at_;
    Label found = label();
    return label_index(found, range(begin));
  }

  Index parentheses() {
    Index index;
    size_t begin = at_++;
    int64_t sign = take('-') ? -1 : 1;
    while (true) {
      Term found = term();
      if (__builtin_mul_overflow(found.factor, sign, &found.factor))
        fail(found.where, "the integer is too large");
      index.terms.push_back(found);
      if (take('+')) {
        sign = 1;
      } else if (take('-')) {
        sign = -1;
      } else {
        break;
      }
    }
    if (!take(')')) {
      if (at_end()) fail(range(begin), "the ( is not closed");
      char c = peek();
      if (c == '*') fail(here(), "a product is an integer times a label or a table, as in 2*h");
      fail(here(), "expected + or - or ), found ", here().str(),
           is_letter(c) ? "; write a product with a *, as in 2*h" : "");
    }
    index.where = range(begin);
    return index;
  }

  int64_t integer() {
    size_t begin = at_;
    int64_t value = 0;
    while (at_ < text_->size() && is_digit((*text_)[at_])) {
      int digit = (*text_)[at_++] - '0';
      value = value * 10 + digit;
      // Sums of them must stay far from what 64 bits hold.
      if (value > std::numeric_limits<int32_t>::max())
        fail(range(begin), "the integer is too large: indices have 32 bits");
    }
    return value;
  }

  /// A label, or a table with what it is looked up by.
  Term name() {
    peek();
    size_t begin = at_;
    auto part = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
    while (at_ < text_->size() && part((*text_)[at_])) ++at_;
    std::string name = text_->substr(begin, at_ - begin);
    Term result;
    if (!take('[')) {
      if (name.size() == 1 && is_letter(name[0])) {
        result.label = static_cast<unsigned char>(name[0]);
        return result;
      }
      fail(SourceRange(text_, begin, begin + name.size()), name,
           " is no label, which is one letter; a table is looked up by labels, as in ", name,
           "[c]");
    }
    result.kind = Term::Kind::Table;
    result.table = name;
    do {
      if (!is_letter(peek())) fail(here(), "a table is looked up by labels, as in t[c] or t[c,x]");
      result.labels.push_back(label());
    } while (take(','));
    if (!take(']')) {
      if (at_end()) fail(range(begin), "the [ is not closed");
      fail(here(), "expected , or ], found ", here().str(),
           "; a table is looked up by labels, as in t[c,x]");
    }
    return result;
  }

  Term term() {
    char c = peek();
    size_t begin = at_;
    Term result;
    if (is_digit(c)) {
      int64_t value = integer();
      if (take('*')) {
        char next = peek();
        if (!is_letter(next) && next != '_')
          fail(here(), "a product is an integer times a label or a table, as in 2*h");
        result = name();
      } else {
        result.kind = Term::Kind::Integer;
      }
      result.factor = value;
    } else if (is_letter(c) || c == '_') {
      result = name();
      if (take('*')) {
        if (!is_digit(peek()))
          fail(here(), "a product is an integer times a label or a table, as in 2*h");
        result.factor = integer();
      }
    } else {
      if (at_end()) fail(here(), "the ( is not closed");
      fail(here(), "expected a label, an integer or a table, found ", here().str());
    }
    result.where = range(begin);
    return result;
  }

  std::shared_ptr<const std::string> text_;
  size_t at_ = 0;
};

}  // namespace

std::string label_text(Label label) {
  if (label >= kFirstEllipsis) return concat("...", label - kFirstEllipsis);
  return std::string(1, static_cast<char>(label));
}

Index label_index(Label label, const SourceRange& where) {
  Term term;
  term.label = label;
  term.where = where;
  return {{term}, where};
}

bool Index::is_label() const {
  return terms.size() == 1 && terms[0].kind == Term::Kind::Label && terms[0].factor == 1;
}

Equation parse_equation(const std::string& text) { return Parser(text).parse(); }

}  // namespace tc::einsum
