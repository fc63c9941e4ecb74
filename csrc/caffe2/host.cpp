#include "caffe2/host.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include <exception>

namespace tc_caffe2 {
namespace {

void parallel_for(void*, int64_t count, void (*task)(void*, int64_t, int64_t), void* data) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { task(data, begin, end); });
}

int32_t thread_count(void*) {
  return at::in_parallel_region() ? 1 : static_cast<int32_t>(at::get_num_threads());
}

void* allocate(void*, DLDevice, size_t bytes) {
  try {
    return c10::GetCPUAllocator()->raw_allocate(bytes);
  } catch (const std::exception&) {
    return nullptr;  // the core says which allocation failed
  }
}

void release(void*, DLDevice, void* pointer) { c10::GetCPUAllocator()->raw_deallocate(pointer); }

void* stream(void*, DLDevice) { return nullptr; }

}  // namespace

const tc_host& caffe2_host() {
  static const tc_host host = {nullptr, parallel_for, thread_count, allocate, release, stream};
  return host;
}

}  // namespace tc_caffe2
