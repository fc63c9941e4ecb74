// What operations on values cost a core.
#pragma once

#include <string>

namespace tc::machine {

struct OperationCost {
  /// Of a full vector of 512 bits of floats: operations that have instructions, or code of ours.
  /// Of one element, where the C library computes them one by one.
  double cycles = 1;
  bool one_by_one = false;
  int instructions = 1;  ///< of the code that it becomes
};

/// By what it is called in a text: "+", "/", "exp"; "half" and "bfloat16" are conversions of these
/// types, "choice" one by a condition of indices. Functions that are not known here are the C
/// library's.
const OperationCost& operation_cost(const std::string& name);

}  // namespace tc::machine
