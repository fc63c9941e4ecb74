// What operations on values cost a core.
#pragma once

#include <string>

namespace tc::machine {

/// Floats of the vector that costs are of.
constexpr double kCostedLanes = 16;
/// Of an operation on floats narrower than 32 bits, which is computed in those.
constexpr int kEmulatedInstructions = 8;
/// From which on a function is named in what is said of a program.
constexpr int kFewInstructions = 15;

struct OperationCost {
  /// Of a full vector of 512 bits of floats: operations that have instructions, or code of ours.
  /// Of one element, where the C library computes them one by one.
  double cycles = 1;
  bool one_by_one = false;
  int instructions = 1;  ///< of the code that it becomes
};

/// Cycles that an operation of a product's operand shows, of a vector: few of a cheap one, which
/// hides behind the loads and multiply-adds of the product, or is done once for all rows of a
/// block.
double shown_cycles(const OperationCost& cost);

/// By what it is called in a text: "+", "/", "exp"; "half" and "bfloat16" are conversions of these
/// types, "choice" one by a condition of indices. Functions that are not known here are the C
/// library's.
const OperationCost& operation_cost(const std::string& name);

}  // namespace tc::machine
