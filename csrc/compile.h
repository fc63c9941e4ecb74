// The compiler: one list of stages from a program to a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"
#include "options.h"
#include "poly/cpu_machine.h"
#include "runtime/kernel.h"

namespace tc {

/// What a kernel is compiled for.
struct Target {
  bool cuda = false;
  std::string arch;      ///< "sm_90"; empty on the CPU
  int device = 0;        ///< CUDA device the kernel will be loaded on
  bool offline = false;  ///< compiled for a GPU that need not be here; cannot be launched
};
/// "cpu", "cuda", "cuda:sm_90"; UsageError otherwise.
Target parse_target(const std::string& text);

/// How a tensor lies in memory. Strides count elements and may be 0 or negative.
struct Layout {
  std::vector<int64_t> sizes, strides;
  bool operator==(const Layout& other) const {
    return sizes == other.sizes && strides == other.strides;
  }
};
Layout row_major(const std::vector<int64_t>& sizes);
/// Of a tensor of a specialised program.
Layout row_major(const ir::Tensor& tensor);
/// What a tensor of these sizes takes when nothing lies between its elements; bool is a byte.
int64_t dense_bytes(const ir::Tensor& tensor, const Layout& layout);

/// Compiles a specialised program (see ir::specialize) for a machine: this_machine(), as the thread
/// sees it that will run the kernel. `layouts` names every input and output; temporaries are
/// row-major. Throws CompilationError with a reason when the options are illegal.
std::shared_ptr<const runtime::Kernel> compile(const ir::Program& program,
                                               const std::map<std::string, Layout>& layouts,
                                               const MappingOptions& options, const Target& target,
                                               const poly::CpuMachine& machine);

}  // namespace tc
