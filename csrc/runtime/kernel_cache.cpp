#include "runtime/kernel_cache.h"

#include <future>
#include <mutex>
#include <unordered_map>

namespace tc::runtime {
namespace {

using Pending = std::shared_future<std::shared_ptr<const Kernel>>;

struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, Pending> kernels;
};

/// Never destroyed: kernels may still run while the process exits.
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

}  // namespace

std::shared_ptr<const Kernel> find_or_compile(
    const std::string& key, const std::function<std::shared_ptr<const Kernel>()>& make) {
  std::promise<std::shared_ptr<const Kernel>> promise;
  {
    std::unique_lock<std::mutex> lock(cache().mutex);
    auto [entry, added] = cache().kernels.emplace(key, Pending());
    if (!added) {
      Pending pending = entry->second;
      lock.unlock();
      return pending.get();
    }
    entry->second = promise.get_future().share();
  }
  try {
    std::shared_ptr<const Kernel> kernel = make();
    promise.set_value(kernel);
    return kernel;
  } catch (...) {
    {
      std::lock_guard<std::mutex> lock(cache().mutex);
      cache().kernels.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

}  // namespace tc::runtime
