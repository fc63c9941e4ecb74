// The machine code of a CPU function with all that a kernel needs beside it, as plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/workspaces.h"

namespace tc::codegen {

struct CpuCode {
  std::string name;
  std::string object;    ///< a relocatable ELF file (see runtime/machine_code.h)
  size_t arguments = 0;  ///< pointers that a launch takes
  std::vector<runtime::Workspace> workspaces;
  /// Bytes of copies, outside of parallel loops and of one task of them.
  int64_t scratch = 0, task_scratch = 0;
  bool streams = false;               ///< some result goes past the caches
  std::vector<std::string> streamed;  ///< results that may
};

/// Puts the code into memory, linked to what it calls. An InternalError names what cannot be.
std::shared_ptr<runtime::Kernel> load_cpu_kernel(const CpuCode& code);

}  // namespace tc::codegen
