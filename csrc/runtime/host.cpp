// The host of a program without a framework: serial, and the C library's memory.
#include <cstdlib>

#include "tc/tc.h"

namespace {

void run_serially(void*, int64_t count, void (*task)(void*, int64_t, int64_t), void* data) {
  task(data, 0, count);
}

int32_t one_thread(void*) { return 1; }

void* allocate(void*, DLDevice device, size_t bytes) {
  if (device.device_type != kDLCPU) return nullptr;
  constexpr size_t kAlignment = 64;  // a vector register, a cache line
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

void release(void*, DLDevice, void* pointer) { std::free(pointer); }

void* default_stream(void*, DLDevice) { return nullptr; }

const tc_host kDefaultHost = {nullptr, run_serially, one_thread, allocate, release, default_stream};

}  // namespace

const tc_host* tc_default_host(void) { return &kDefaultHost; }
