// Kernels and calls of libraries, one after the other.
#pragma once

#include <memory>
#include <vector>

#include "isa/library_calls.h"
#include "runtime/kernel.h"
#include "runtime/workspaces.h"

namespace tc::runtime {

/// One step: a kernel with the places of its arguments, or a library's function.
struct Step {
  std::shared_ptr<const Kernel> kernel;  ///< null for a call
  std::vector<size_t> arguments;         ///< of the kernel; a, b and result of the call
  ir::LibraryCall call;
};

/// Runs the steps in order on the CPU, calls by `library`, which may be null where there are none.
/// Places count the kernel's own arguments (see Kernel::launch), then the temporaries. Texts about
/// the code of the steps follow each other.
std::shared_ptr<Kernel> make_sequence(std::vector<Step> steps, size_t arguments,
                                      std::vector<Workspace> temporaries,
                                      const tc_libraries* library);

}  // namespace tc::runtime
