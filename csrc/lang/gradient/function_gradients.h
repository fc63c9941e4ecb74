// Derivatives of operators and built-in functions.
#pragma once

#include "lang/syntax/tree.h"

namespace tc::lang {

/// One factor of a chain rule: what an operand receives when `e` receives `gradient`. `result` is
/// an expression of the value of `e`, which some derivatives are made of. Null where the derivative
/// is zero everywhere it exists (floor, comparisons). Functions without a derivative here are a
/// LanguageError at the place of the call.
///
/// Where a function has no derivative at a point the value is PyTorch's (fabs at 0: 0; max of equal
/// values: half for each; fmax of equal values: all for the first), except max and fmax with a
/// literal, min and fmin likewise, which follow torch.relu: 0 where both are equal.
ExpressionPtr operand_gradient(const Expression& e, size_t operand, const ExpressionPtr& gradient,
                               const ExpressionPtr& result);

/// Whether `operand_gradient` looks at the result in place of the operands, be it read or computed.
/// A quotient's looks at it where it is read.
bool prefers_result(const Expression& e);

}  // namespace tc::lang
