#include "lang/syntax/formatter.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lang/syntax/layout.h"
#include "lang/syntax/lexer.h"
#include "lang/syntax/parser.h"

namespace tc::lang {
namespace {

using layout::align;
using layout::fill;
using layout::group;
using layout::line;
using layout::nest;
using layout::text;

constexpr int kWidth = 100, kIndentation = 4;

struct Comment {
  std::string characters;
  bool own_line, after_empty_line;
};

/// What stands between two tokens.
struct Gap {
  std::vector<Comment> comments;
  bool ends_with_empty_line = false;
};

Gap read_gap(const std::string& source, size_t begin, size_t end) {
  Gap gap;
  // The first line of a text is a line of its own.
  int line_breaks = begin == 0 ? 1 : 0;
  for (size_t at = begin; at < end; ++at) {
    if (source[at] == '\n') ++line_breaks;
    if (source[at] != '#') continue;
    size_t stop = std::min(source.find('\n', at), end);
    size_t last = source.find_last_not_of(" \t\r\f\v", stop - 1);
    gap.comments.push_back({source.substr(at, last + 1 - at), line_breaks > 0, line_breaks > 1});
    line_breaks = 0;
    at = stop - 1;
  }
  gap.ends_with_empty_line = line_breaks > 1;
  return gap;
}

/// Walks the tokens along the grammar: the tree has neither parentheses nor the user's spelling.
/// The text was parsed before, so that tokens are only looked at where they decide something.
class Formatter {
 public:
  Formatter(const std::string& source, std::vector<Token> tokens,
            const std::vector<Function>& functions)
      : tokens_(std::move(tokens)), page_(kWidth) {
    size_t end = 0;
    for (const Token& token : tokens_) {
      gaps_.push_back(read_gap(source, end, token.where.begin()));
      end = token.where.end();
    }
    for (const Function& function : functions) {
      for (const TreeStatement& statement : function.statements)
        statements_.insert(statement.where.begin());
    }
  }

  std::string run() {
    while (current().kind != TokenKind::End) print_definition();
    print_comments(0);
    return page_.finish();
  }

 private:
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

  /// The next token, after the comments in front of it.
  LayoutPtr take() {
    TC_INTERNAL_CHECK(at_ + 1 < tokens_.size(), "the formatter ran over the end of the text");
    std::vector<LayoutPtr> parts;
    for (const Comment& comment : gaps_[at_].comments)
      parts.push_back(layout::comment(comment.characters, comment.own_line));
    parts.push_back(text(tokens_[at_++].text));
    return parts.size() == 1 ? parts[0] : layout::concat(std::move(parts));
  }

  // ---- lines of their own

  /// The comments in front of a token that begins a line, and the empty lines around them.
  void print_comments(int indentation) {
    for (const Comment& comment : gaps_[at_].comments) {
      if (comment.own_line) {
        if (comment.after_empty_line) page_.empty_line();
        page_.new_line(indentation);
      }
      page_.print(layout::comment(comment.characters, comment.own_line), indentation);
    }
    if (gaps_[at_].ends_with_empty_line) page_.empty_line();
    gaps_[at_].comments.clear();
    page_.new_line(indentation);
  }

  void print_definition() {
    print_comments(0);
    std::vector<LayoutPtr> parts = {take(), text(" "), take()};
    parts.push_back(list([this] { return declaration(); }));
    parts.push_back(group({nest(
        2 * kIndentation, {line(), take(), text(" "), list([this] { return declaration(); })})}));
    if (current().is("<=>")) parts.push_back(group({nest(2 * kIndentation, {annotation()})}));
    parts.push_back(layout::concat({text(" "), take()}));
    page_.print(layout::concat(std::move(parts)), 0);
    if (current().is("}") && gaps_[at_].comments.empty()) {
      page_.print(take(), 0);
      return;
    }
    gaps_[at_].ends_with_empty_line &= !gaps_[at_].comments.empty();
    if (!gaps_[at_].comments.empty()) gaps_[at_].comments[0].after_empty_line = false;
    while (!current().is("}")) {
      print_comments(kIndentation);
      page_.print(statement(), kIndentation);
    }
    print_comments(kIndentation);
    page_.no_empty_line();
    page_.new_line(0);
    page_.print(take(), 0);
  }

  // ---- parts of a definition

  /// "(a, b)", filled into as many lines as it takes.
  LayoutPtr list(const std::function<LayoutPtr()>& element) {
    LayoutPtr open = take();
    std::vector<LayoutPtr> elements;
    while (!current().is(")")) {
      LayoutPtr one = element();
      elements.push_back(current().is(",") ? layout::concat({one, take()}) : one);
    }
    LayoutPtr close = take();
    if (elements.empty()) return layout::concat({open, close});
    return layout::concat({open, align({fill(std::move(elements)), close})});
  }

  LayoutPtr declaration() {
    std::vector<LayoutPtr> parts = {take()};
    if (current().is("(")) parts.push_back(list([this] { return take(); }));
    if (!current().is(",") && !current().is(")"))
      parts.push_back(layout::concat({text(" "), take()}));
    return layout::concat(std::move(parts));
  }

  LayoutPtr annotation() {
    return layout::concat(
        {line(), take(), text(" "), take(), list([this] { return expression(); })});
  }

  LayoutPtr statement() {
    std::vector<LayoutPtr> head;
    if (!current().is("(")) head.push_back(take());
    if (current().is("(")) head.push_back(list([this] { return expression(); }));
    head.push_back(layout::concat({text(" "), take(), nest(kIndentation, {line(), expression()})}));
    std::vector<LayoutPtr> tail;
    if (current().is("<=>")) tail.push_back(annotation());
    if (current().is_word("where") && ahead().kind == TokenKind::Identifier)
      tail.push_back(layout::concat({line(), take(), text(" "), align({clauses()})}));
    if (current().is("<=>")) tail.push_back(annotation());
    return group({group(std::move(head)), nest(kIndentation, std::move(tail))});
  }

  LayoutPtr clauses() {
    std::vector<LayoutPtr> all;
    for (bool more = true; more;) {
      LayoutPtr one = clause();
      more = current().is(",");
      all.push_back(more ? layout::concat({one, take()}) : one);
    }
    return fill(std::move(all));
  }

  LayoutPtr clause() {
    bool let = ahead().is("="), range = ahead().is_word("in");
    if (!let && !range) return layout::concat({take(), text(" "), expression()});
    std::vector<LayoutPtr> parts = {take(), text(" "), take(), text(" "), expression()};
    if (range) parts.push_back(layout::concat({take(), expression()}));
    return layout::concat(std::move(parts));
  }

  // ---- expressions

  LayoutPtr expression() {
    LayoutPtr condition = binary(2);
    if (!current().is("?")) return condition;
    LayoutPtr branches =
        group({take(), text(" "), expression(), line(), take(), text(" "), expression()});
    return group({condition, nest(kIndentation, {line(), branches})});
  }

  int level() const {
    const std::optional<Operator> op = binary_operator(current());
    return op ? precedence(*op) : 0;
  }

  LayoutPtr binary(int loosest) {
    LayoutPtr left = unary();
    while (level() >= loosest) {
      int here = level();
      std::vector<LayoutPtr> operands = {left};
      while (level() == here)
        operands.push_back(layout::concat({take(), text(" "), binary(here + 1)}));
      left = nest(kIndentation, {fill(std::move(operands))});
    }
    return left;
  }

  LayoutPtr unary() {
    std::vector<LayoutPtr> parts;
    while (current().is("-") || current().is("!")) parts.push_back(take());
    parts.push_back(primary());
    return parts.size() == 1 ? parts[0] : layout::concat(std::move(parts));
  }

  LayoutPtr primary() {
    if (current().is("(")) return layout::concat({take(), align({expression(), take()})});
    bool name = current().kind == TokenKind::Identifier;
    LayoutPtr first = take();
    if (!name) return first;
    if (current().is(".")) return layout::concat({first, take(), take()});
    // A line that starts with `(a, b) =` starts a statement.
    if (!current().is("(") || statements_.count(current().where.begin())) return first;
    return layout::concat({first, list([this] { return expression(); })});
  }

  std::vector<Token> tokens_;
  std::vector<Gap> gaps_;        ///< gaps_[i] is in front of tokens_[i]
  std::set<size_t> statements_;  ///< where they begin
  size_t at_ = 0;
  Page page_;
};

/// Formatting moves blanks and nothing else.
void expect_same_tokens(const std::vector<Token>& before, const std::vector<Token>& after) {
  bool same = before.size() == after.size();
  for (size_t i = 0; same && i < before.size(); ++i)
    same = before[i].kind == after[i].kind && before[i].text == after[i].text;
  TC_INTERNAL_CHECK(same, "formatting changed the text");
}

}  // namespace

std::string format(const std::string& source) {
  std::vector<Function> functions = parse_text(source);
  std::vector<Token> tokens = tokenize(std::make_shared<const std::string>(source));
  std::string formatted = Formatter(source, tokens, functions).run();
  expect_same_tokens(tokens, tokenize(std::make_shared<const std::string>(formatted)));
  return formatted;
}

}  // namespace tc::lang
