// The table of builtin functions.
#pragma once

#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::lang {

struct Builtin {
  const char* name;  ///< the C name without type suffix
  int arity;
  /// Keeps integer arguments as they are; the others promote integers to float.
  bool keeps_integers = false;
  /// Gives bool.
  bool predicate = false;
  /// Written with other builtins by `composed_builtin`; never reaches ir::math.
  bool composed = false;
};

/// By any accepted spelling: the name, or with the suffix f of C's float versions; null otherwise.
const Builtin* find_builtin(const std::string& spelling);
/// The names that ir::math carries.
std::vector<std::string> builtin_names();
/// All names, for suggestions.
std::vector<std::string> all_builtin_names();

/// The value of a composed builtin on arguments of one floating-point type.
ir::Expr composed_builtin(const std::string& name, const std::vector<ir::Expr>& arguments);

}  // namespace tc::lang
