// Checked expressions to Halide expressions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

using ir::Expr;

/// A read, or what a left-hand side says of its indices, as range inference sees it: subscripts in
/// index coordinates, where `/` rounds down.
struct Access {
  std::string tensor;
  /// Undefined at the plain indices of a left-hand side that need not exist beforehand.
  std::vector<Expr> subscripts;
  bool write = false;
};

/// An index with bounds from a where clause; `last` is included.
struct ExplicitRange {
  Identifier index;
  Expr first, last;
};

/// A statement in index coordinates: a read of a computed tensor has the value of its index as
/// subscript, wherever that index starts. Sizes of computed tensors (`T.1`) are variables of that
/// name. Choices whose sides read tensors are lazy: `Call::if_then_else`, not Select.
struct LoweredStatement {
  Expr value;  ///< of the written tensor's type, unless the result is a position
  /// One a dimension: what a scattered one is written at, undefined at a plain index.
  std::vector<Expr> subscripts;
  std::vector<Access> accesses;
  std::vector<ExplicitRange> ranges;
};

/// The variable that stands for the size of a computed tensor.
inline std::string dimension_variable(const std::string& tensor, int dimension) {
  return tensor + "." + std::to_string(dimension);
}

/// The statements of a function. `scalars` gives values to specialised scalars; all must be there.
std::vector<LoweredStatement> lower(const Function& function, const ir::Program& signature,
                                    const std::map<std::string, int64_t>& scalars);

}  // namespace tc::lang
