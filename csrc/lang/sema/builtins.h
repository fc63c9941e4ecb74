// The table of builtin functions.
#pragma once

#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::lang {

/// What a builtin gives: the type of its arguments, or always the same.
enum class BuiltinResult { Same, Bool, Int32, Int64 };

struct Builtin {
  const char* name;  ///< the C name without type suffix
  int arity;
  BuiltinResult result = BuiltinResult::Same;
  /// Written with other builtins by `composed_builtin`; never reaches ir::math.
  bool composed = false;
  /// The argument that is an int32 whatever the others are: an order, an exponent.
  int integer_argument = -1;
  /// Keeps integer arguments as they are; the others promote integers to float.
  bool keeps_integers = false;
};

/// By any accepted spelling: the name, or with the suffix f of C's float versions; null otherwise.
const Builtin* find_builtin(const std::string& spelling);
/// All names.
std::vector<std::string> all_builtin_names();

/// The value of a composed builtin on arguments of one floating-point type, but for its integer.
ir::Expr composed_builtin(const std::string& name, const std::vector<ir::Expr>& arguments);

}  // namespace tc::lang
