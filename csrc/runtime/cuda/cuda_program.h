// What a CUDA kernel is made of: text and launches, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/workspaces.h"

namespace tc::runtime {

/// One __global__ function and how it is launched.
struct CudaLaunch {
  std::string symbol;                ///< of the function in the text
  std::vector<std::string> buffers;  ///< arguments or temporaries, in the order of its parameters
  std::vector<std::string> scalars;  ///< arguments passed by value, parameters after the buffers
  /// Two parameters follow: where the first bad index is reported, and the number of the kernel.
  bool checks_indices = false;
  int64_t grid[3] = {1, 1, 1};
  int64_t block[3] = {1, 1, 1};
  int64_t dynamic_shared_bytes = 0;  ///< shared memory that must be given at launch
};

struct CudaProgram {
  std::string source;
  std::vector<CudaLaunch> launches;  ///< run one after the other on one stream
  std::vector<Workspace> temporaries;
};

}  // namespace tc::runtime
