// NVRTC, NVIDIA's run-time compiler, opened when first needed. It needs neither a GPU nor a driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tc::runtime {

/// What ptxas says about one kernel.
struct KernelResources {
  std::string symbol;
  int64_t registers = 0;     ///< a thread
  int64_t spill_bytes = 0;   ///< stores and loads, a thread
  int64_t stack_bytes = 0;   ///< local memory, a thread: arrays that did not fit registers
  int64_t shared_bytes = 0;  ///< static, a block
};

struct CudaBinary {
  std::vector<char> cubin;
  std::string log;
  std::vector<KernelResources> kernels;
};

/// Compiles a CUDA text for "sm_90" and the like. CompilationError with NVRTC's log and the lines
/// around the first error when it rejects the text, when it does not know the architecture, and
/// when no NVRTC is found: TC_NVRTC_PATH (a library or its directory), the packages beside our
/// library (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib) and the loader's own path are looked at.
CudaBinary compile_cuda(const std::string& source, const std::string& arch);

/// The libraries that an NVRTC may be, as they are now, and the driver, which decides between them:
/// while this text stays, so does what becomes of a CUDA text. Opens none of them, which takes as
/// long as some kernels.
std::string nvrtc_identity();

/// What a log says about each kernel; for code kept with its log.
std::vector<KernelResources> parse_resources(const std::string& log);

}  // namespace tc::runtime
