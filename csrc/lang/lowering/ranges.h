// Range inference in rounds; docs/language.md states the rules for users.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lang/lowering/lowering.h"

namespace tc::lang {

/// Both ends included.
struct Range {
  Expr first, last;
};

struct InferredRanges {
  /// One map a statement: every index of it to its range.
  std::vector<std::map<std::string, Range>> statements;
  /// For every computed tensor, the coordinates that each of its dimensions covers.
  std::map<std::string, std::vector<Range>> shapes;
  /// What remains to be compared with the shapes once sizes are known.
  std::vector<ir::DeclaredSize> declared;
};

/// Ranges over the size variables of the signature. LanguageError where one cannot be inferred.
InferredRanges infer(const Function& function, const ir::Program& signature,
                     const std::vector<LoweredStatement>& statements);

/// The ranges that a statement alone gives its indices, where all computed tensors have these
/// shapes; indices without one are left out.
std::map<std::string, Range> infer_statement(
    const Function& function, const ir::Program& signature,
    const std::vector<LoweredStatement>& statements,
    const std::map<std::string, std::vector<Range>>& shapes, size_t statement);

/// Simplifies an expression of sizes, which are never negative.
Expr simplify_size(const Expr& e, const ir::Program& signature);
/// Whether two expressions of sizes provably have one value, whatever the sizes are.
bool always_equal(const Expr& a, const Expr& b, const ir::Program& signature);
bool always_equal(const Range& a, const Range& b, const ir::Program& signature);

}  // namespace tc::lang
