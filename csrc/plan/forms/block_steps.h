// What a register block does of a cluster of reductions: steps, copies, and moves of results.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "plan/forms/block_effort.h"

namespace tc::plan {

/// The members of a block decide all of it; how many points it has along them, nothing.
struct BlockSteps {
  std::vector<Step> steps;         ///< of every statement
  std::vector<PackedRead> packed;  ///< what they read of copies
  std::vector<CopyCost> copies;    ///< what these cost
  double moves = 0;    ///< cycles of moving all results between registers and memory once
  double reloads = 0;  ///< of doing so between two tiles of the reduction
  /// How many cycles fewer the moves take where a block has all of a dimension.
  std::array<double, 3> interleaved = {};
  double runs = 0;  ///< results that lie along the rows instead of the vector
};

/// The statements of a cluster, in the view of its blocks. Refers to all arguments.
class BlockStatements {
 public:
  BlockStatements(const ClusterContext& in, const Operands& operands);

  /// For vectors of so many lanes.
  BlockSteps describe(const BlockMembers& dimensions, int lanes) const;
  /// Lanes of a vector of the machine.
  int most_lanes() const { return most_lanes_; }
  /// Registers that a vector of results takes.
  int registers_of_results() const { return result_registers_; }

 private:
  Load describe_read(const Update& update, const Operand& operand, const BlockMembers& dimensions,
                     int lanes, BlockSteps& made) const;
  void describe_write(const Update& update, const Operand& operand, const BlockMembers& dimensions,
                      int lanes, BlockSteps& made) const;
  std::vector<Walk> walks_of_terms(const ScopStatement& statement, const Operand& read) const;
  bool is_loaded(const Update& update, const Operand& read, int64_t apart) const;
  bool is_held(const Operand& read) const;
  bool is_stored_later(const Update& update, const Operand& written) const;

  const ClusterContext& in_;
  const CpuMachine& machine_;
  const Operands& operands_;
  const int most_lanes_;
  const std::set<std::string> staying_;  ///< results that are not stored
  int result_registers_ = 1;
};

}  // namespace tc::plan
