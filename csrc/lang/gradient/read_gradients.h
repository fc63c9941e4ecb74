// Reverse mode within one expression.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// What one read of an expression receives: `weight` where all `guards` hold, nothing elsewhere.
struct ReadGradient {
  ExpressionPtr read;  ///< Name or Apply, bound to a tensor
  std::vector<ExpressionPtr> guards;
  ExpressionPtr weight;  ///< of the type of the tensor that is read
};

/// For every differentiable read of the checked expression `value`, when the expression receives
/// `gradient`: reads in conditions, subscripts and what is cast to integers are not. Only tensors
/// that are `active` are looked at. `result`, if not null, is a cheaper expression of the same
/// value. A part that occurs several times is gone through once, with all that it receives. Lets
/// must have been replaced. LanguageError for a function without a derivative.
std::vector<ReadGradient> read_gradients(const ExpressionPtr& value, const ExpressionPtr& gradient,
                                         const ExpressionPtr& result,
                                         const std::set<std::string>& active);

/// Whether `read_gradients` finds something.
bool is_active(const Expression& value, const std::set<std::string>& active);

}  // namespace tc::lang
