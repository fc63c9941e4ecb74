// Reads that only a run can show to stay inside their tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// One dimension of one read that is looked at while the kernel runs.
struct GatherCheck {
  std::string access;  ///< the read as a user would write it
  std::string tensor;
  size_t dimension = 0;
  int64_t size = 0;
  bool is_unsigned = false;  ///< how the bits of a bad index are to be read
  SourceRange where;         ///< of the statement
  /// Of the statement: a position counts their values in row-major order.
  std::vector<Iterator> domain;
};

/// Results that the checks add to those of the program, two for each in order: the first position
/// at which the index is bad, the largest int64 if there is none; and that index.
struct CheckedProgram {
  Program program;
  std::vector<GatherCheck> checks;
};

/// Puts in front of every statement the checks of its reads whose subscripts or conditions hold
/// data, and lets these reads give 0 where they would leave their tensors. The program must be
/// specialised. Program and checks are as given where there is nothing to look at.
CheckedProgram check_gathers(const Program& program);

}  // namespace tc::ir
