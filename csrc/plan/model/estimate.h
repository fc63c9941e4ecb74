// What a Plan takes, in cycles of one core: the model that decisions and `Executor.explain()`
// share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/members.h"

namespace tc::plan {

/// Cycles by what they are spent on. Every part is what it adds to those in front of it: what hides
/// behind others is not counted again, so that the parts add up to the whole.
struct Estimate {
  double arithmetic = 0;  ///< issue slots of multiply-adds and of all other operations
  double loads = 0;       ///< issue slots of loads from the first cache beyond those
  double latency = 0;     ///< of operations that each need the one before
  double spills = 0;  ///< of vectors of a register tile that find no register, stored and loaded
  double second_cache = 0;  ///< lines on their way to the first cache
  double last_cache = 0;    ///< lines on their way to the second cache
  double memory = 0;        ///< the same of what no cache keeps
  double copies = 0;        ///< of operands into the order of use, with what they read
  double stores = 0;        ///< of results, with the lines that these fetch and put back
  double start = 0;         ///< of tasks, and of blocks and rows inside them

  double total() const;
  /// In this order, with their names.
  std::vector<std::pair<const char*, double>> parts() const;
  Estimate& operator+=(const Estimate& other);
};

/// "820 k arithmetic, 41 k second cache": what counts, in that order.
std::string to_string(const Estimate& estimate);

/// Of a Plan for a cluster, which names each of its shared loops. Tensors lie where a run before
/// left them: in the smallest cache that holds all that the cluster touches.
Estimate estimate(const ClusterPlan& plan, const ClusterContext& in);

/// To begin and end a block of results in registers, with so many vector operations in all. Few
/// terms are no loop (see codegen/tiles/unroll_reductions), whose end a processor does not foresee.
double cycles_of_block(double operations, const CpuMachine& machine);

}  // namespace tc::plan
