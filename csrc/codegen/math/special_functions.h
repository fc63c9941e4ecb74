// Functions of CUDA's library that C's has not, for one double; kernels on the CPU call them.
#pragma once

#include <string>

namespace tc::codegen {

struct SpecialFunction {
  const char* name;  ///< of the builtin
  double (*function)(double);
};
extern const SpecialFunction kSpecialFunctions[6];

/// What generated code calls it.
inline std::string special_function_symbol(const std::string& name) { return "tc_" + name; }

}  // namespace tc::codegen
