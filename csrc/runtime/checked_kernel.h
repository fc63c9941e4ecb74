// A kernel with what makes sure of the indices that are data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/index_checks.h"
#include "runtime/element_range.h"
#include "runtime/kernel.h"

namespace tc::runtime {

/// A kernel some of whose arguments are those of another one, and the others results without
/// dimensions of its own.
struct PartialKernel {
  std::shared_ptr<const Kernel> kernel;
  std::vector<size_t> arguments;  ///< places among those of the other one
  size_t results = 0;
};

struct IndexGuards {
  std::string name;  ///< of the definition
  std::vector<ir::IndexCheck> checks;
  /// Looked at before the kernel runs: elements of an argument, for a check.
  struct Range {
    size_t check, argument;
    ElementRange elements;
  };
  std::vector<Range> ranges;
  /// As well: for every check in `detected` a result, an int32 that is not 0 where it fails.
  PartialKernel detect;
  std::vector<size_t> detected;
  /// Makes what finds the first failure: for every check in `located` the position and the index
  /// there, as int64.
  std::function<PartialKernel()> make_locate;
  std::vector<size_t> located;
};

/// Runs `kernel` where all checks hold, else throws a ShapeError that says which access it is, at
/// which values of the statement's indices, the bad index and the size. What is looked at before
/// the run leaves the outputs as they were; what the kernel itself finds (see BadIndex) leaves
/// outputs without particular values.
std::shared_ptr<Kernel> make_checked(std::shared_ptr<const Kernel> kernel, IndexGuards guards);

/// The message, also for a kernel on a GPU. `located`: whether position and index are known;
/// `untouched`: whether the outputs are as they were.
std::string describe_bad_index(const std::string& name, const ir::IndexCheck& check, bool located,
                               int64_t position, int64_t index, const std::string& outputs);

}  // namespace tc::runtime
