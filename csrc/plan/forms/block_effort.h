// What a step of a register block takes: multiply-adds, loads, and the lines that these bring.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "machine/cpu.h"
#include "plan/forms/operands.h"
#include "plan/model/shared_windows.h"

namespace tc::plan {

/// Of a block: vectors, and rows of two dimensions.
using BlockShape = std::array<int64_t, 3>;
/// The members along these dimensions; null where a block has points of fewer.
using BlockMembers = std::array<const Member*, 3>;

/// What a read costs in one step of a block: loads, and which dimensions of the block multiply
/// them.
struct Load {
  double cost = 1;
  std::array<bool, 3> moves = {false, false, false};
  bool packed = false;
  bool scattered = false;             ///< read where it lies, a run for several steps
  Footprint footprint = {};           ///< its members are the block's dimensions
  std::array<int64_t, 3> bytes = {};  ///< from one row to the next, 0 where nobody knows
  double steps_of_a_line = 1;         ///< that follow each other
  /// Of what lies along the vector: how it walks with the block's vectors and rows, and with terms;
  /// nothing of others.
  std::vector<Walk> along_block = {}, along_terms = {};

  /// In a step of such a block.
  double count(const BlockShape& block) const;
  /// Of these, the share that is loaded where all steps are unrolled.
  double share_of_windows(const BlockShape& block) const;
  /// Lines that all steps bring to the first cache; what puts lanes together counts as lines too.
  double lines(const BlockShape& block, const std::vector<int64_t>& points, double vector_bytes,
               const CpuMachine& machine) const;

 private:
  /// Whether the lines that a step reads have too few places in the first cache to be there still
  /// when the next step reads them.
  bool collides(const BlockShape& block, double vector_bytes, const CpuMachine& machine) const;
};

/// What blocks take: cycles, and loads, where one of a vector counts twice: it brings a line.
struct Effort {
  double cycles = 0, loads = 0;
};

/// One statement's step.
struct Step {
  std::vector<Load> loads;
  double repeats = 1;  ///< steps for every result
  int registers = 1;   ///< of a vector of results
  double vector_bytes = 64;
  double parts = 1;  ///< of a vector with so many lanes, that it takes one after the other

  /// Of a block with `points` of the results along each dimension; so many blocks of rows follow
  /// each other.
  Effort effort(const BlockShape& block, const std::vector<int64_t>& points, double row_blocks,
                const CpuMachine& machine) const;

 private:
  /// That all steps bring to the first cache: of a block that fits there, those behind it find what
  /// the rows do not move along.
  double count_lines(const BlockShape& block, const std::vector<int64_t>& points, double row_blocks,
                     const CpuMachine& machine) const;
};

}  // namespace tc::plan
