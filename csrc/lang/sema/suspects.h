// What is legal but probably not meant.
#pragma once

#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Adds a warning to statements of the definition's own text, with caret and suggestion, for every
/// - sum over an index that stands once in the right-hand side, in one factor of a product whose
///   others read tensors at indices, unless it has a range of its own;
/// - index without a range of its own whose range a read gives under a condition that compares it;
/// - tensor that is computed, but neither read nor returned.
/// Names must be resolved.
void warn_of_suspects(const Function& function, std::vector<std::string>* warnings);

}  // namespace tc::lang
