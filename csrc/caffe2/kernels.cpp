#include "caffe2/kernels.h"

#include <utility>

namespace tc_caffe2 {
namespace {

// As tc.cache_limit has them in the beginning.
constexpr size_t kMostKernels = 2048;
constexpr int64_t kMostBytes = int64_t{128} << 20;

}  // namespace

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
  int64_t bytes = 0;
  tensor_comprehensions::check(tc_kernel_number(made->kernel.get(), "bytes", &bytes));
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
  while (entries_.size() > 1 && (entries_.size() > kMostKernels || bytes_ > kMostBytes)) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace tc_caffe2
