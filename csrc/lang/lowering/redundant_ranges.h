// Where clauses that say what range inference finds anyway.
#pragma once

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Leaves out the ranges of a definition's where clauses without which every index keeps its range
/// and nothing becomes suspect.
/// LanguageError where the definition is not correct as it is, or too large (see
/// lang/sema/expansion). Integer scalars must not decide ranges. Returns whether any was left out.
bool drop_redundant_ranges(Function* function);

}  // namespace tc::lang
