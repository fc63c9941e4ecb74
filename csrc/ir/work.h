// What a program has to do, whatever its schedule: operations and traffic with memory.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/notes.h"
#include "compile.h"
#include "ir/program.h"

namespace tc::ir {

/// Operations are +, -, *, /, %, min, max and builtins on values, and one for every term that a
/// reduction combines: a multiply-add is two. What does not depend on an index is done once for all
/// its values. Subscripts, comparisons, choices and conversions are not counted, and guarded points
/// are taken to run.
struct Work {
  double floating_point = 0, integer = 0;
  /// Bytes of the tensors that a caller passes and gets, in order of the signature, if every
  /// element that is accessed travels once. An output whose initial contents are read is in both.
  std::vector<std::pair<std::string, double>> reads, writes;

  double bytes() const;
};

/// Of a specialised program. `layouts` names every input and output.
Work count_work(const Program& program, const std::map<std::string, Layout>& layouts);

/// Operations, bytes of each tensor, operations a byte.
Notes describe(const Work& work);

}  // namespace tc::ir
