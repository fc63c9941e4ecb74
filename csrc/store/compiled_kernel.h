// Compiled code as bytes, for the folder of compiled code.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "runtime/cuda/nvrtc.h"

namespace tc::store {

/// A kernel of the CPU.
struct CompiledKernel {
  /// In the order in which compiling makes them.
  std::vector<codegen::CpuCode> functions;
  std::map<std::string, std::string> texts;
};

std::string encode(const CompiledKernel& kernel);
/// Nothing where the bytes are none.
std::optional<CompiledKernel> decode_kernel(const std::string& bytes);

std::string encode(const runtime::CudaBinary& binary);
/// Nothing where the bytes are none, or are of no code.
std::optional<runtime::CudaBinary> decode_cuda(const std::string& bytes);

}  // namespace tc::store
