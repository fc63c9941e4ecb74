// The compiler: one list of stages from a program to a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/notes.h"
#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"
#include "plan/options/options.h"
#include "runtime/kernel.h"

namespace tc::runtime {
struct CudaBinary;
}

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

/// What a caller knows or wants beside the options.
struct CompileContext {
  /// All that decides what is computed: text, sizes, layouts. Code is only shared with other
  /// compilations, and kept on disk, where it is known.
  std::string subject;
  Notes notes;  ///< first in what is explained
  /// The kernel is timed and thrown away: groups of statements may be kernels of their own (see
  /// group_kernels.h).
  bool trial = false;
  /// For a GPU: code that was compiled before, for the text with this checksum.
  std::shared_ptr<const runtime::CudaBinary> binary;
  uint32_t binary_checksum = 0;
};

/// Compiles a specialised program (see ir::specialize) for a machine: machine::look_up(), as the
/// thread sees it that will run the kernel. `layouts` names every input and output; temporaries are
/// row-major. Throws CompilationError with a reason when the options are illegal.
std::shared_ptr<const runtime::Kernel> compile(const ir::Program& program, const Layouts& layouts,
                                               const MappingOptions& options, const Target& target,
                                               const CpuMachine& machine,
                                               const CompileContext& context = {});

}  // namespace tc
