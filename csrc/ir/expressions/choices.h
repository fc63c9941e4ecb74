// Values that conditions choose, as expressions hold them: Halide's Select, or lazily.
#pragma once

#include <optional>
#include <vector>

#include "ir/halide.h"

namespace tc::ir {

/// condition ? yes : no.
struct Choice {
  Expr condition, yes, no;
};

/// Nothing where the expression is no choice.
std::optional<Choice> find_choice(const Expr& e);

/// Whether there is a choice in it that evaluates one side alone.
bool has_lazy_choice(const Expr& e);
bool has_lazy_choice(const Stmt& stmt);

/// A choice that evaluates one side alone, since the condition may be what keeps its reads inside.
Expr choose_lazily(const Expr& condition, const Expr& yes, const Expr& no);

/// The conditions that all hold where `e` does: those that `&&` joins, also where the second
/// one reads, and is evaluated where the first one holds.
std::vector<Expr> list_conditions(const Expr& e);

}  // namespace tc::ir
