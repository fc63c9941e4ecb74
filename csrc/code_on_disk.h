// Code that an earlier process has left on disk (see store/code_folder.h): of kernels for the CPU,
// and what NVRTC made of CUDA texts.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "store/compiled_kernel.h"

namespace tc {

/// The functions of such a kernel, for the places where compiling makes them.
struct FoundCode {
  std::vector<codegen::CpuCode> functions;
  size_t next = 0;

  /// The next one. InternalError where there is none.
  std::shared_ptr<runtime::Kernel> load();
};

/// The functions that a kernel's checks of indices run: kept, or found, with those of the kernel.
struct HelperCode {
  bool keeps_code = false;
  std::shared_ptr<FoundCode> found;
  std::vector<codegen::CpuCode> code;
};

/// What decides the code of a kernel for the CPU, and which processors run it; "" where none is
/// kept. CacheError where the folder may not be used.
std::string key_on_disk(const MappingOptions& options, const CpuMachine& machine,
                        const CompileContext& context);

/// Nothing for a key of "", and where nothing is kept for it.
std::optional<store::CompiledKernel> find_on_disk(const std::string& key);

/// What decides what becomes of a CUDA text; "" where none is kept. CacheError as above.
std::string cuda_key_on_disk(const std::string& source, const std::string& arch);

/// As find_on_disk.
std::optional<runtime::CudaBinary> find_cuda_on_disk(const std::string& key);

}  // namespace tc
