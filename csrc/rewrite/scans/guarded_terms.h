// Terms of reductions under conditions.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// A term, and the conditions that all hold where it is one.
struct GuardedTerm {
  std::vector<Expr> conditions;
  Expr value, elsewhere;
};

/// Of a statement c ? value : elsewhere, or c ? elsewhere : value where `elsewhere` is in the way
/// of no result. Choices inside of one another are one as long as each leaves nothing but its term:
/// with the outermost one alone first, then with one more at a time. Empty where the value is no
/// choice.
std::vector<GuardedTerm> list_guarded(const Statement& statement);

/// Whether the term changes no result; data may be no number whatever it is multiplied by.
bool is_identity(const Expr& term, Reduction reduction);

/// What a comparison of integers says is not negative; nothing of other conditions.
std::optional<Expr> not_negative(const Expr& condition, bool holds = true);

/// What a comparison of integers, or of one as a float with 0, says is not 0.
std::optional<Expr> not_zero(const Expr& condition);

}  // namespace tc::ir
