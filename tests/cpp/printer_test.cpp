// Trees and text: what is printed or formatted parses to the same tree, and a key is equal for
// texts that differ in names only. Random texts; an argument gives another seed.
#include "lang/syntax/printer.h"

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "check.h"
#include "equal_trees.h"
#include "lang/lowering/definition.h"
#include "lang/sema/builtins.h"
#include "lang/sema/types.h"
#include "lang/syntax/formatter.h"
#include "lang/syntax/lexer.h"
#include "lang/syntax/parser.h"
#include "random_texts.h"

namespace {

using tc::lang::Function;
using tc::lang::Token;
using tc::lang::TokenKind;
using tc_test::equal_trees;
using tc_test::equal_up_to_names;
using tc_test::Random;

std::vector<Token> tokens_of(const std::string& text) {
  return tc::lang::tokenize(std::make_shared<const std::string>(text));
}

std::string to_text(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token& token : tokens) text += token.text + (token.is(".") ? "" : " ");
  // `T . 1` would be a number after T.
  for (size_t at; (at = text.find(" .")) != std::string::npos;) text.erase(at, 1);
  return text;
}

bool same_functions(const std::vector<Function>& a, const std::vector<Function>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = equal_trees(a[i], b[i]);
  return same;
}

void test_syntax(uint64_t seed) {
  size_t statements = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    Random random(seed + i);
    std::string text = tc_test::RandomSyntax(&random).text();
    try {
      std::vector<Function> functions = tc::lang::parse_text(text);
      std::string printed, formatted = tc::lang::format(text);
      for (const Function& function : functions) {
        printed += tc::lang::print(function);
        statements += function.statements.size();
      }
      bool same = same_functions(functions, tc::lang::parse_text(printed));
      if (!same) CHECK_EQ(text, printed);
      CHECK(same);
      same = same_functions(functions, tc::lang::parse_text(formatted));
      if (!same) CHECK_EQ(text, formatted);
      CHECK(same);
      CHECK_EQ(tc::lang::format(formatted), formatted);
    } catch (const tc::Error& error) {
      CHECK_EQ("seed " + std::to_string(seed + i) + ":\n" + text, std::string(error.what()));
    }
  }
  CHECK(statements > 1000);
}

/// Names that hold no word of the language.
bool is_own_name(const Token& token) {
  static const std::vector<std::string> words = {"def", "where", "in",  "exists",
                                                 "min", "max",   "true"};
  return token.kind == TokenKind::Identifier && !tc::lang::find_type(token.text) &&
         !tc::lang::find_builtin(token.text) &&
         std::find(words.begin(), words.end(), token.text) == words.end();
}

std::string renamed(std::vector<Token> tokens, Random* random) {
  std::map<std::string, std::string> names;
  size_t first = random->below(1000);
  for (Token& token : tokens) {
    if (!is_own_name(token)) continue;
    // Distinct numbers in an order that has nothing to do with that of the names.
    size_t number = (first + 611 * names.size()) % 1000;
    auto [at, added] = names.emplace(token.text, "");
    if (added) at->second = (number % 2 ? "n" : "Q_") + std::to_string(number);
    token.text = at->second;
  }
  return to_text(tokens);
}

/// One token replaced by another of the same kind.
std::string changed(std::vector<Token> tokens, Random* random) {
  static const std::vector<std::vector<std::string>> classes = {
      {"+", "-", "*", "/", "%"},
      {"<", "<=", ">", ">=", "==", "!="},
      {"&&", "||"},
      {"=", "+=", "+=!", "*=!", "min=!", "max=!", "*=", "min=", "max="},
      {"1", "2", "0x3", "2.5", "1e-3"},
      {"exp", "fabs", "min", "max"},
      tc_test::type_names(),
  };
  for (;;) {
    Token& token = tokens[random->below(tokens.size())];
    std::vector<std::string> others;
    if (is_own_name(token)) {
      for (const Token& other : tokens) {
        if (is_own_name(other)) others.push_back(other.text);
      }
    }
    for (const auto& each : classes) {
      if (std::find(each.begin(), each.end(), token.text) != each.end()) others = each;
    }
    if (others.empty()) continue;
    token.text = random->pick(others);
    return to_text(tokens);
  }
}

std::shared_ptr<const tc::lang::Definition> define(const std::string& text) {
  return tc::lang::parse(text).definitions.back();
}

void test_keys(uint64_t seed) {
  size_t equal = 0, different = 0;
  for (uint64_t i = 0; i < 150; ++i) {
    Random random(seed + i);
    std::string text = tc_test::RandomDefinition(&random).text();
    std::shared_ptr<const tc::lang::Definition> first;
    try {
      first = define(text);
      std::shared_ptr<const tc::lang::Definition> again = define(first->text);
      CHECK(equal_trees(*again->tree, *first->tree));
      CHECK_EQ(again->text, first->text);
      CHECK_EQ(again->key, first->key);
      CHECK_EQ(define(tc::lang::format(text))->text, first->text);
      CHECK_EQ(define(renamed(tokens_of(text), &random))->key, first->key);
    } catch (const tc::Error& error) {
      CHECK_EQ("seed " + std::to_string(seed + i) + ":\n" + text, std::string(error.what()));
      continue;
    }
    for (int change = 0; change < 20; ++change) {
      std::string other = changed(tokens_of(text), &random);
      std::shared_ptr<const tc::lang::Definition> second;
      try {
        second = define(other);
      } catch (const tc::LanguageError&) {
        continue;
      }
      bool same = equal_up_to_names(*first->tree, *second->tree);
      if (same != (first->key == second->key)) CHECK_EQ(text, other);
      CHECK_EQ(same, first->key == second->key);
      ++(same ? equal : different);
    }
  }
  CHECK(equal > 50);
  CHECK(different > 1000);
}

/// Trees that only some parentheses keep apart.
void test_places_of_words() {
  for (const char* text :
       {"def f() -> (O) { O(i) = 1 where exists (in) + 1 }",
        "def f() -> (O) { O(i) = 1 where exists (in + 1) * 2, exists -in }",
        "def f() -> (O) { (P, Q) = g(A, 1 + 2)\n (R) = g() }",
        "def f() -> (O) { O = 1 where = 2 where(i) = where where i in in:in, in in in:in }"}) {
    std::vector<Function> functions = tc::lang::parse_text(text);
    CHECK(same_functions(functions, tc::lang::parse_text(tc::lang::print(functions[0]))));
    CHECK(same_functions(functions, tc::lang::parse_text(tc::lang::format(text))));
  }
}

}  // namespace

int main(int count, char** arguments) {
  uint64_t seed = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  test_places_of_words();
  test_syntax(seed);
  test_keys(seed);
  return check::finish();
}
