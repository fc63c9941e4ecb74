// The terms of a reduction as reads of tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/gradient/versions.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {

/// Whether it is made of literals only, also as another type: `float(-3e38)`.
bool is_literal(const Expression& e);
/// Whether it is the infinity that no term of an extreme is beyond.
bool is_neutral(const Expression& e, ir::Reduction reduction);

struct TermReads {
  std::vector<Step> steps;  ///< assignments, to be made first
  /// Reads and literals, as the conditions of the step's value choose them: that value itself where
  /// it is no more than this.
  ExpressionPtr value;
};

/// Compared with a result, a term must be the very same number, and what is computed twice may be
/// rounded twice. So what a branch of the step's value computes is written to a tensor over the
/// indices that the branch mentions, `S_value(s) = 1.0 - q(s)` for `s <= t ? 1.0 - q(s) : 1`: a
/// tensor over all indices would have the square of a running product's elements. Nothing where a
/// branch needs all indices, or where conditions may be what keeps its reads inside their tensors,
/// whose elements are in `shapes`, in a way that cannot be written in front of the branch.
std::optional<TermReads> read_terms(const Step& step,
                                    const std::map<std::string, std::vector<Range>>& shapes,
                                    const ir::Program& signature, FreshNames* names);

}  // namespace tc::lang
