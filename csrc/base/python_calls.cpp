#include "base/python_calls.h"

#include <cctype>

#include "base/error.h"

namespace tc {
namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& what) : text_(text), what_(what) {}

  std::vector<PythonCall> calls() {
    std::vector<PythonCall> result;
    skip();
    if (text_.compare(at_, 3, "tc.") == 0) at_ += 3;
    result.push_back(call());
    for (skip(); at_ < text_.size(); skip()) {
      take('.');
      result.push_back(call());
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw UsageError(what_, ": expected ", expected, " at column ", at_ + 1, " of\n  ", text_);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool next_is(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  void take(char c) {
    if (!next_is(c)) fail(concat("'", c, "'"));
    ++at_;
  }
  bool is_letter() const {
    return at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_');
  }
  std::string name() {
    skip();
    const size_t begin = at_;
    while (is_letter()) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  PythonCall call() {
    PythonCall result;
    result.name = name();
    if (result.name.empty()) fail("a name");
    take('(');
    while (!next_is(')')) {
      if (!result.values.empty() || !result.named.empty()) {
        take(',');
        if (next_is(')')) break;
      }
      const size_t begin = at_;
      skip();
      if (is_letter() && !std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        const std::string key = name();
        if (next_is('=')) {
          ++at_;
          result.named.emplace_back(key, value());
          continue;
        }
        at_ = begin;
      }
      if (!result.named.empty()) fail("a name and '='");
      result.values.push_back(value());
    }
    take(')');
    return result;
  }

  PythonValue value() {
    skip();
    if (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') return word(c);
      if (c == '(') return tuple(')');
      if (c == '[') return tuple(']');
      if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) return integer();
    }
    const size_t begin = at_;
    const std::string key = name();
    if (key == "True" || key == "False") return PythonValue::of(key == "True");
    if (key == "None") return PythonValue::none();
    at_ = begin;
    fail("an integer, True, False, None, a word in quotes or a tuple");
  }

  PythonValue word(char quote) {
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("a closing quote");
    PythonValue result = PythonValue::of(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  PythonValue tuple(char closing) {
    // No option has deeper ones, and a text must not exhaust the stack.
    constexpr int kMostDepth = 8;
    if (depth_ == kMostDepth) fail(concat("at most ", kMostDepth, " tuples in each other"));
    ++depth_;
    ++at_;
    std::vector<PythonValue> items;
    while (!next_is(closing)) {
      if (!items.empty()) {
        take(',');
        if (next_is(closing)) break;
      }
      items.push_back(value());
    }
    take(closing);
    --depth_;
    return PythonValue::tuple(std::move(items));
  }

  PythonValue integer() {
    const size_t digits = at_ + (text_[at_] == '-');
    size_t end = digits;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
    if (end == digits) fail("an integer");
    PythonValue value = PythonValue::integer(text_.substr(at_, end - at_));
    at_ = end;
    return value;
  }

  const std::string& text_;
  const std::string& what_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

PythonValue PythonValue::integer(const std::string& digits) {
  if (digits.size() - (digits[0] == '-') > kMostDigits) return {Kind::Large, 0, digits, {}};
  return {Kind::Integer, std::stoll(digits), {}, {}};
}

std::string to_string(const PythonValue& value) {
  switch (value.kind) {
    case PythonValue::Kind::None: return "None";
    case PythonValue::Kind::Boolean: return value.number ? "True" : "False";
    case PythonValue::Kind::Integer: return std::to_string(value.number);
    case PythonValue::Kind::Large: return value.word;
    case PythonValue::Kind::Word: return "\"" + value.word + "\"";
    case PythonValue::Kind::Tuple: break;
  }
  std::string text = "(";
  for (const PythonValue& item : value.items)
    text += (text.size() > 1 ? ", " : "") + to_string(item);
  return text + (value.items.size() == 1 ? ",)" : ")");
}

std::string arguments_text(const PythonCall& call) {
  std::string text;
  for (const PythonValue& value : call.values)
    text += (text.empty() ? "" : ", ") + to_string(value);
  for (const auto& [name, value] : call.named)
    text += (text.empty() ? "" : ", ") + name + "=" + to_string(value);
  return text;
}

std::string to_string(const PythonCall& call) {
  return call.name + "(" + arguments_text(call) + ")";
}

std::vector<PythonCall> parse_calls(const std::string& text, const std::string& what) {
  return Reader(text, what).calls();
}

}  // namespace tc
