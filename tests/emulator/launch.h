// What a launch is, to the runtime, to tests/emulator/__init__.py (which has the same as ctypes)
// and to the driver of tests/emulator/fake_driver.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace emulator {

struct Index {
  unsigned x, y, z;
};
struct Context {
  Index thread, block, block_size, grid_size;
};

/// What an array argument points to. The launch works on a copy between guard zones.
struct Array {
  char* data = nullptr;  ///< null for an argument that is passed by value
  size_t bytes = 0;
  size_t element = 1;  ///< bytes of one
  const char* name = "";
  uint8_t* defined = nullptr;  ///< a byte for each: whether anybody has written it. Null: all are
};

/// Of one launch: requests are what a warp asks of memory by one access of its lanes.
struct Counts {
  uint64_t global_requests, sectors, used_bytes;
  uint64_t shared_requests, wavefronts, least_wavefronts;
  uint64_t atomics, barriers, threads;
};

enum Order { Forward, Reverse, Shuffled };

struct Launch {
  unsigned grid[3], block[3];
  void* const* arguments;  ///< a pointer to each, as cuLaunchKernel takes them
  const Array* arrays;     ///< one for each argument; null: pointers are used as they are
  size_t argument_count;
  size_t dynamic_shared_bytes;
  int order;
  unsigned seed;   ///< of what is shuffled
  Counts* counts;  ///< null: nothing is counted
};

using Call = void (*)(void* const* arguments);
/// Null, or what went wrong; the text lives until the next launch. Places in the code are written
/// as <+0x12ab>, offsets in the library of the kernel.
const char* run(const Launch& launch, Call call);

}  // namespace emulator
