#include "caffe2/host.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <dirent.h>
#include <pthread.h>

#include <exception>

namespace tc_caffe2 {
namespace {

// As in torch/after_fork.cpp. Of a thread that forked from a process with further threads: the team
// that OpenMP kept for it is gone, and OpenMP would wait for it for ever, as Caffe2's own operators
// do there. The thread runs alone; those that the child starts have teams of their own.
thread_local bool lost = false;
bool has_others = false;  ///< of the process that forks

/// Where the system does not say, there may be some.
bool has_other_threads() {
  DIR* threads = opendir("/proc/self/task");
  if (!threads) return true;
  int count = 0;
  while (const dirent* entry = readdir(threads)) count += entry->d_name[0] != '.';
  closedir(threads);
  return count != 1;
}

// The handler of the child runs in the thread that forked, the only one it has.
[[maybe_unused]] const int at_fork = pthread_atfork([] { has_others = has_other_threads(); },
                                                    nullptr, [] { lost = lost || has_others; });

void parallel_for(void*, int64_t count, void (*task)(void*, int64_t, int64_t), void* data) {
  if (lost_its_team()) return task(data, 0, count);
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { task(data, begin, end); });
}

int32_t thread_count(void*) {
  return at::in_parallel_region() || lost_its_team() ? 1
                                                     : static_cast<int32_t>(at::get_num_threads());
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

bool lost_its_team() { return lost; }

}  // namespace tc_caffe2
