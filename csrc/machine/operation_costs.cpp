#include "machine/operation_costs.h"

#include <map>

namespace tc::machine {

const OperationCost& operation_cost(const std::string& name) {
  // Cycles were measured on a Granite Rapids (Intel, family 6, model 173; 512-bit units, one
  // thread): sums over 2048 floats in the first cache of the function's values, with two sums under
  // way, less those of the arguments themselves. A Zen 5 takes 1.1 to 1.5 times as long for those
  // of ours (benchmarks/results, functions). Instructions: of the vector forms in
  // codegen/math/vector_math that of powers is the longest; calls stand for 20.
  static const std::map<std::string, OperationCost> costs = {
      {"+", {0.5}},
      {"-", {0.5}},
      {"*", {0.5}},
      {"min", {0.5}},
      {"max", {0.5}},
      {"comparison", {0.5}},
      {"?", {0.5}},
      {"conversion", {0.5}},
      {"/", {10}},
      {"%", {10}},
      {"abs", {0.5, false, 1}},
      {"fabs", {0.5, false, 1}},
      {"fmin", {0.5, false, 2}},
      {"fmax", {0.5, false, 2}},
      {"fma", {0.5, false, 1}},
      {"copysign", {0.5, false, 2}},
      {"isnan", {0.5, false, 2}},
      {"isinf", {0.5, false, 2}},
      {"fdim", {1, false, 3}},
      {"ceil", {1, false, 2}},
      {"floor", {1, false, 2}},
      {"trunc", {1, false, 2}},
      {"rint", {1, false, 2}},
      {"round", {3, false, 8}},
      {"nextafter", {6, false, 12}},
      {"sqrt", {12, false, 2}},
      {"rsqrt", {22, false, 4}},
      {"exp", {11, false, 20}},
      {"exp2", {12, false, 20}},
      {"expm1", {14, false, 20}},
      {"log", {20, false, 20}},
      {"log2", {20, false, 20}},
      {"log1p", {26, false, 20}},
      {"sin", {16, false, 20}},
      {"cos", {16, false, 20}},
      {"tanh", {34, false, 20}},
      {"erf", {22, false, 20}},
      {"erfc", {57, false, 60}},
      {"cbrt", {49, false, 60}},
      {"pow", {90, false, 60}},
      {"whole power", {7, false, 14}},
      // These of floats alone.
      {"log10", {24, false, 20}},
      {"asin", {17, false, 20}},
      {"acos", {21, false, 20}},
      {"atan", {21, false, 20}},
      {"atan2", {25, false, 30}},
      {"tan", {50, false, 40}},
      {"hypot", {45, false, 12}},
      {"fmod", {40, false, 20}},
      {"remainder", {40, false, 20}},
      {"sinh", {42, false, 50}},
      {"cosh", {42, false, 50}},
      {"asinh", {84, false, 60}},
      {"acosh", {84, false, 60}},
      {"atanh", {84, false, 60}},
      {"half", {1}},
      // A shift, which hides behind the load.
      {"bfloat16", {0}},
      // By a condition of indices: not a comparison and a selection of lanes, but of what to load.
      {"choice", {5}},
      // Of a sum of indices where something is read: no load of neighbours, nor a copy.
      {"clamp", {5.5}},
  };
  static const OperationCost of_library = {25, true, 20};
  const auto found = costs.find(name);
  return found == costs.end() ? of_library : found->second;
}

double shown_cycles(const OperationCost& cost) {
  // A choice by indices takes 1/27 to 1/11 of a cycle an element (benchmarks/thresholds.md).
  constexpr double kMostHidden = 5, kShown = 0.085;
  if (cost.one_by_one) return kCostedLanes * cost.cycles;
  return cost.cycles <= kMostHidden ? kShown * cost.cycles : cost.cycles;
}

}  // namespace tc::machine
