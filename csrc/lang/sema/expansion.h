// How large a statement becomes once names are replaced by what they stand for. A short text may
// stand for an expression of any size (x = a + a, y = x + x, ...), so that is bounded.
#pragma once

#include <map>
#include <string>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Deeper trees would overflow the stack of the passes that walk them.
constexpr int kMaximumDepth = 1000;
constexpr int kMaximumOperations = 10000;
/// Of a definition, once its calls are replaced by the statements of what they call. The time to
/// compile grows with their number: this many take some seconds, or a quarter of a minute where
/// each is a loop nest of its own. The longest derivative in ops/ has 33.
constexpr size_t kMaximumStatements = 512;

struct Expansion {
  double operations = 1;
  int depth = 1;
};

/// LanguageError where the statement, with its lets and the given names replaced, is too large or
/// too deep. On a checked statement the operations count that integer division, which rounds down
/// in the machine's and towards zero in the language, is made of. `where` is blamed when valid,
/// instead of the statement's own expression.
void expect_small(const TreeStatement& statement, std::map<std::string, Expansion> names = {},
                  const SourceRange& where = {});

/// Of an expression alone.
Expansion expand(const Expression& expression, const std::map<std::string, Expansion>& names);

}  // namespace tc::lang
