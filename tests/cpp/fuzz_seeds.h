// Texts to start from, and what may be done to them.
#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "random_texts.h"

namespace tc_test {

/// What looks like definitions in a file of any kind: from `def f(` to the closing brace.
inline void collect_definitions(std::string content, std::set<std::string>* texts) {
  // Literals of C++ and Python that stand beside each other are one, and have line breaks as \n.
  content = std::regex_replace(content, std::regex("\"\\s*\n\\s*\""), "");
  content = std::regex_replace(content, std::regex("\\\\n"), "\n");
  static const std::regex start("\\bdef \\w+\\([^)]");
  for (std::sregex_iterator found(content.begin(), content.end(), start), end; found != end;
       ++found) {
    size_t begin = found->position(), open = content.find('{', begin);
    size_t arrow = content.find("->", begin);
    if (open == std::string::npos || arrow > open || open - begin > 1000) continue;
    size_t close = content.find('}', open);
    if (close == std::string::npos || close - open > 3000) continue;
    texts->insert(content.substr(begin, close + 1 - begin));
  }
}

inline std::vector<std::string> find_seeds(const std::string& root) {
  namespace fs = std::filesystem;
  std::set<std::string> texts = {
      "",
      "def",
      "# a comment",
      "def f() -> (O) { O = 1 }",
      "def f(float(N) A) -> (O) { O(i) = A(i) }",
      "def g(float(N) A, int s) -> (B, C) { B(i) = A(i * s) C +=! A(i) }\n"
      "def f(float(N) A) -> (O) {\n  (T, S) = g(A, 2)\n  O(i) = T(i) / S where i in 0:T.0 }",
      "def f(bool(N) b, uint8(N) u, int64(N) l, half(N) h, bfloat16(N) w, double(N) d) -> (O) {\n"
      "  O(i) = b(i) && u(i) > 3 || !(l(i) != 0x7f) ? h(i) * 0.5 + w(i) : d(i) % -1e-5 }",
      "def f(float(N, N) A, int32(M) I) -> (float(M, 4) O) <=> g(A) {\n"
      "  O(i, j) max= A(I(i), j / 2) <=> h(A) where j in 0:4, x = A.1, exists I(i + x)\n"
      "  O(i, j) min=! fmaxf(-A(i % N, j), float(min(i, j))) + true where i in -1:M }",
  };
  auto read = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  };
  for (const char* folder : {"ops", "docs", "tests", "examples", "benchmarks"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
      std::string kind = entry.path().extension();
      if (kind == ".tc") texts.insert(read(entry.path()));
      if (kind == ".tc" || kind == ".md" || kind == ".py" || kind == ".cpp" || kind == ".c") {
        collect_definitions(read(entry.path()), &texts);
      }
    }
  }
  collect_definitions(read(fs::path(root) / "README.md"), &texts);
  return {texts.begin(), texts.end()};
}

/// Words, numbers and single other characters; joined they are the text.
inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> pieces;
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (char c : text) {
    bool joins = !pieces.empty() && is_word(c) && is_word(pieces.back().back());
    if (joins) {
      pieces.back() += c;
    } else {
      pieces.emplace_back(1, c);
    }
  }
  return pieces;
}

inline std::string interesting_token(Random* random) {
  static const std::vector<std::string> tokens = {"def",
                                                  "where",
                                                  "in",
                                                  "exists",
                                                  "min",
                                                  "max",
                                                  "true",
                                                  "false",
                                                  "float",
                                                  "int32",
                                                  "half",
                                                  "bool",
                                                  "uint64",
                                                  "int8",
                                                  "exp",
                                                  "fmaxf",
                                                  "pow",
                                                  "->",
                                                  "<=>",
                                                  "+=!",
                                                  "*=",
                                                  "min=!",
                                                  "max=",
                                                  "&&=",
                                                  "||=",
                                                  "argmin=",
                                                  "==",
                                                  "&&",
                                                  "||",
                                                  "?",
                                                  ":",
                                                  ".",
                                                  ".0",
                                                  ".1",
                                                  "!",
                                                  "-",
                                                  "%",
                                                  "/",
                                                  "(",
                                                  ")",
                                                  "{",
                                                  "}",
                                                  ",",
                                                  "=",
                                                  "#",
                                                  "\n",
                                                  "\\\n",
                                                  "\\",
                                                  "0",
                                                  "1",
                                                  "-1",
                                                  "2147483647",
                                                  "2147483648",
                                                  "-2147483648",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "0x7fffffffffffffff",
                                                  "0xffffffffffffffff",
                                                  "1e308",
                                                  "1e309",
                                                  "1e-400",
                                                  "0.5",
                                                  ".5",
                                                  "2.",
                                                  "65504.1",
                                                  "A",
                                                  "i",
                                                  "j",
                                                  "N",
                                                  "O",
                                                  "O.0",
                                                  "i / 2",
                                                  "i % 3",
                                                  "N - i",
                                                  "A(i)",
                                                  "/ 0",
                                                  "% 0",
                                                  "* N * N * N",
                                                  "where i in 0:N",
                                                  ", x = A(i)",
                                                  "\xc3\xa9",
                                                  "\xe2\x88\x91",
                                                  "\xff",
                                                  "\xed\xa0\x80",
                                                  "\xf0\x9f\x98\x80",
                                                  "\xef\xbb\xbf",
                                                  "\x01",
                                                  "\t",
                                                  "\r\n",
                                                  "\"",
                                                  "'",
                                                  "@"};
  switch (random->below(12)) {
    case 0: return std::string(1, '\0');
    case 1: {
      static const std::vector<char> letters = {'a', '9', '0', '(', '-', '!', '.', '{', ' '};
      size_t count = size_t{1} << random->below(random->one_in(20) ? 14 : 7);
      return std::string(count, random->pick(letters));
    }
    case 2: {
      static const std::vector<std::pair<std::string, std::string>> nests = {
          {"(", ")"},      {"A(", ")"},    {"-(", ")"},          {"exp(", ")"},
          {"int32(", ")"}, {"1 + (", ")"}, {"i > 0 ? ", " : 0"}, {"min(1, ", ")"},
          {"!(", ")"},     {"", " + 1"},   {"", " * A(i)"}};
      const auto& [before, after] = random->pick(nests);
      std::string text = "i", opening, closing;
      for (size_t n = size_t{1} << random->below(random->one_in(20) ? 12 : 5); n > 0; --n) {
        opening += before;
        closing += after;
      }
      return opening + text + closing;
    }
    case 3: return std::to_string(static_cast<int64_t>(random->below(1000)) - 100);
    case 4: return RandomSyntax(random).text();
    default: return random->pick(tokens);
  }
}

inline void mutate_tokens(std::string* text, const std::vector<std::string>& seeds,
                          Random* random) {
  std::vector<std::string> pieces = split(*text);
  auto place = [&] { return pieces.begin() + random->below(pieces.size() + 1); };
  auto stretch = [&](const std::vector<std::string>& from) {
    size_t begin = random->below(from.size() + 1);
    size_t end = std::min(from.size(), begin + 1 + random->below(random->one_in(4) ? 60 : 8));
    return std::vector<std::string>(from.begin() + begin, from.begin() + std::max(begin, end));
  };
  switch (random->below(8)) {
    case 0: {  // delete
      size_t begin = random->below(pieces.size() + 1);
      size_t end = std::min(pieces.size(), begin + 1 + random->below(6));
      pieces.erase(pieces.begin() + std::min(begin, end), pieces.begin() + end);
      break;
    }
    case 1: {  // duplicate
      std::vector<std::string> copy = stretch(pieces);
      auto at = place();
      pieces.insert(at, copy.begin(), copy.end());
      break;
    }
    case 2:
      if (!pieces.empty()) {
        std::swap(pieces[random->below(pieces.size())], pieces[random->below(pieces.size())]);
      }
      break;
    case 3: {  // splice
      std::vector<std::string> other = stretch(split(random->pick(seeds)));
      auto at = place();
      pieces.insert(at, other.begin(), other.end());
      break;
    }
    case 4: {
      auto at = place();
      pieces.insert(at, " " + interesting_token(random) + " ");
      break;
    }
    case 5:  // one for another
      if (!pieces.empty()) {
        size_t at = random->below(pieces.size());
        pieces[at] = interesting_token(random);
      }
      break;
    default:  // one of the text's own words for another
      if (!pieces.empty()) {
        std::string word = random->pick(pieces);
        size_t at = random->below(pieces.size());
        if (std::isalnum(static_cast<unsigned char>(word[0])) &&
            std::isalnum(static_cast<unsigned char>(pieces[at][0]))) {
          pieces[at] = word;
        }
      }
  }
  text->clear();
  for (const std::string& piece : pieces) *text += piece;
}

inline void mutate_bytes(std::string* text, Random* random) {
  size_t at = random->below(text->size() + 1);
  switch (random->below(4)) {
    case 0: text->insert(at, 1, static_cast<char>(random->below(256))); break;
    case 1: text->erase(at, 1 + random->below(4)); break;
    case 2:
      if (at < text->size()) (*text)[at] = static_cast<char>((*text)[at] ^ (1 << random->below(8)));
      break;
    default: text->insert(at, text->substr(random->below(text->size() + 1), random->below(20)));
  }
}

/// A text of the list or a random one, changed in a few places.
inline std::string mutated(const std::vector<std::string>& seeds, Random* random) {
  std::string text = random->pick(seeds);
  if (random->one_in(5)) text = RandomDefinition(random).text();
  if (random->one_in(20)) text = RandomSyntax(random).text();
  if (random->one_in(20)) text += "\n" + random->pick(seeds);
  static const std::vector<size_t> counts = {1, 1, 1, 2, 2, 3, 5, 12};
  for (size_t n = random->pick(counts); n > 0; --n) {
    if (random->one_in(6)) {
      mutate_bytes(&text, random);
    } else {
      mutate_tokens(&text, seeds, random);
    }
  }
  return text;
}

}  // namespace tc_test
