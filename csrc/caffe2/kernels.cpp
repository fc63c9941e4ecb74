#include "caffe2/kernels.h"

#include <c10/util/Flags.h>

// In the beginning as tc.cache_limit has them.
C10_DEFINE_int64(caffe2_tc_most_kernels, 2048,
                 "Kernels of Tensor Comprehensions that the process keeps for nets to come.");
C10_DEFINE_int64(caffe2_tc_most_kernel_bytes, int64_t{128} << 20, "Their memory, in bytes.");

namespace tc_caffe2 {

Kernels& Kernels::all() {
  // Never destroyed: nets may still run while the process exits.
  static Kernels& instance = *new Kernels;
  return instance;
}

CompiledPtr Kernels::find(const std::string& key, const std::function<CompiledPtr()>& make) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->compiled;
    }
  }
  CompiledPtr made = make();
  const int64_t bytes = made->kernel.number("bytes");
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = by_key_.find(key);
  if (found != by_key_.end()) return found->second->compiled;
  entries_.push_front({key, made, bytes});
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
  trim();
  return made;
}

void Kernels::trim() {
  auto many = [&] {
    return static_cast<int64_t>(entries_.size()) > FLAGS_caffe2_tc_most_kernels ||
           bytes_ > FLAGS_caffe2_tc_most_kernel_bytes;
  };
  while (!entries_.empty() && many()) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace tc_caffe2
