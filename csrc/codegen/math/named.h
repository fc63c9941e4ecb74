// Names for values that an expression uses several times.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// Values by their names, in the order in which they are computed.
using NamedValues = std::vector<std::pair<std::string, ir::Expr>>;

/// A body with such names around it, each of which is a Let or a LetStmt.
template <class Binding, class Body>
Body with_names(const NamedValues& names, Body body) {
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    body = Binding::make(name->first, name->second, body);
  return body;
}

/// Halide's passes walk expressions as trees: a function of a function of a function that uses each
/// argument three times would grow to 27 copies of the innermost.
class Names {
 public:
  /// A name for a value of names so far, or the value itself where that is as short.
  ir::Expr operator()(const ir::Expr& value);
  /// An expression of these names with their values.
  ir::Expr around(ir::Expr e) const;

 private:
  NamedValues values_;
};

/// `use` of a name for one value.
ir::Expr named(const ir::Expr& value, const std::function<ir::Expr(const ir::Expr&)>& use);

}  // namespace tc::codegen
