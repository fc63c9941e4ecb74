// What decisions for GPUs depend on. Nothing of it was measured: no GPU is needed to build or test.
#pragma once

#include <cstdint>

namespace tc {

/// Numbers that hold for all of them, by reasoning.
struct GpuMachine {
  int64_t busy_threads = 32768;  ///< that keep any of them busy
  int64_t thread_terms = 32;     ///< of a sum left to one thread, which waits for memory at most
  int64_t launch_terms = 256;  ///< of a sum, below which a second launch takes longer than it saves
  /// Tasks of a scatter without atomic updates: where data says places, each looks at all points,
  /// so that more of them than keep memory busy only take longer.
  int64_t scatter_tasks = 4096;
};

}  // namespace tc
