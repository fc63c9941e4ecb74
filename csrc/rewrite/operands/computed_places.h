// Reads at places that are computed of data.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// A read X(b, c, y, x) of which data decides y and x, as in y = int32(floor(P(b, p, 1))), or a
/// choice of one or something else, cond ? X(b, c, y, x) : z, where data decides that too.
struct ComputedPlace {
  /// What data says of the place, in 32 bits: y and x in steps of the smaller one's stride. It is 0
  /// where something else is chosen.
  Expr place;
  Expr inside;  ///< the condition; undefined where there is none

  /// The same with both read from tables. The read of the tensor counts in the dimension of the
  /// smallest stride, and stands at 0 in the others.
  Expr read_through(const Tensor& tensor, const Expr& place_table, const Expr& inside_table) const;

  const Halide::Internal::Call* read = nullptr;
  std::set<size_t> dimensions;  ///< that data decides
  size_t counted = 0;           ///< the one of them with the smallest stride
  Expr otherwise;
};

/// Nothing for other expressions, for reads whose places some table has as they are, where strides
/// are no multiples of the smallest, and where X may be empty, or too large for 32 bits. `domain`
/// is that of the statement.
std::optional<ComputedPlace> find_computed_place(const Expr& e, const Program& program,
                                                 const Layouts& layouts,
                                                 const std::vector<Iterator>& domain);

}  // namespace tc::ir
