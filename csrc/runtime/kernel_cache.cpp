#include "runtime/kernel_cache.h"

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/threads/fork.h"
#include "base/threads/task.h"

namespace tc::runtime {
namespace {

/// A kernel on its way.
struct Pending {
  std::shared_ptr<Task> task;
  std::shared_ptr<const Kernel> kernel;
};

struct Entry {
  std::weak_ptr<const Kernel> kernel;
  std::shared_ptr<Pending> pending;
};

struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, Entry> entries;
  size_t sweep_at = 64;

  /// Forgets kernels that nobody holds, now and then.
  void sweep() {
    if (entries.size() < sweep_at) return;
    for (auto entry = entries.begin(); entry != entries.end();) {
      const bool gone = !entry->second.pending && entry->second.kernel.expired();
      entry = gone ? entries.erase(entry) : std::next(entry);
    }
    sweep_at = 64 + 2 * entries.size();
  }
};

/// Never destroyed: kernels may still run while the process exits.
Cache& cache = *new Cache;

// In a child the threads that made kernels are not there.
[[maybe_unused]] const bool handles_forks =
    at_fork(ForkStep::Locks, {[] { cache.mutex.lock(); }, [] { cache.mutex.unlock(); },
                              [] {
                                for (auto& [key, entry] : cache.entries) entry.pending = nullptr;
                                new (&cache.mutex) std::mutex;
                              }});

}  // namespace

std::shared_ptr<const Kernel> find_or_compile(const std::string& key, std::string what,
                                              std::function<std::shared_ptr<const Kernel>()> make) {
  std::shared_ptr<Pending> pending;
  bool mine = false;
  {
    std::lock_guard<std::mutex> lock(cache.mutex);
    cache.sweep();
    Entry& entry = cache.entries[key];
    if (auto kernel = entry.kernel.lock()) return kernel;
    if (entry.pending && !entry.pending->task->is_cancelled()) {
      pending = entry.pending;
    } else {
      mine = true;
      pending = entry.pending = std::make_shared<Pending>();
      std::weak_ptr<Pending> weak = pending;
      pending->task = std::make_shared<Task>(std::move(what), [key, weak, make = std::move(make)] {
        auto forget = [&](const std::shared_ptr<const Kernel>& kernel) {
          std::lock_guard<std::mutex> lock(cache.mutex);
          const std::shared_ptr<Pending> own = weak.lock();
          auto found = cache.entries.find(key);
          if (own) own->kernel = kernel;
          if (!own || found == cache.entries.end() || found->second.pending != own) return;
          found->second = Entry{kernel, nullptr};
        };
        try {
          forget(make());
        } catch (...) {
          forget(nullptr);
          throw;
        }
      });
    }
  }
  if (mine) Task::start(pending->task);
  try {
    pending->task->wait();
  } catch (...) {
    // Where the work never began, or its thread has stopped, it has told nobody.
    std::lock_guard<std::mutex> lock(cache.mutex);
    auto found = cache.entries.find(key);
    if (found != cache.entries.end() && found->second.pending == pending &&
        pending->task->is_done())
      found->second.pending = nullptr;
    throw;
  }
  return pending->kernel;
}

}  // namespace tc::runtime
