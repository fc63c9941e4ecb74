// What a program has to do, whatever its schedule: operations and traffic with memory.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/notes.h"
#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// Operations are +, -, *, /, %, min, max and builtins on values, and one for every term that a
/// reduction combines: a multiply-add is two. What does not depend on an index is done once for all
/// its values. Subscripts, comparisons, choices and conversions are not counted, and guarded points
/// are taken to run.
struct Work {
  double floating_point = 0, integer = 0;
  /// Calls, by their names, of functions that take a processor many instructions, as exp and pow:
  /// each is one of the operations above.
  std::map<std::string, double> functions;
  /// Bytes of the tensors that a caller passes and gets, in order of the signature, if every
  /// element that is accessed travels once. An output whose initial contents are read is in both.
  std::vector<std::pair<std::string, double>> reads, writes;

  double bytes() const;
};

/// Of a specialised program. `layouts` names every input and output.
Work count_work(const Program& program, const Layouts& layouts);

/// Operations, calls of functions, bytes of each tensor, operations a byte.
Notes describe(const Work& work);

}  // namespace tc::ir
