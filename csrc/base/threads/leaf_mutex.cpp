#include "base/threads/leaf_mutex.h"

#include <vector>

#include "base/threads/fork.h"

namespace tc {
namespace {

struct Leaves {
  std::mutex mutex;
  std::vector<LeafMutex*> all;

  void lock() {
    mutex.lock();
    for (LeafMutex* each : all) each->lock();
  }
  void unlock() {
    for (LeafMutex* each : all) each->unlock();
    mutex.unlock();
  }
};

Leaves& leaves() {
  static auto* only = [] {
    auto* made = new Leaves;
    // A child is the thread that has locked them.
    at_fork(ForkStep::Locks,
            {[] { leaves().lock(); }, [] { leaves().unlock(); }, [] { leaves().unlock(); }});
    return made;
  }();
  return *only;
}

}  // namespace

LeafMutex::LeafMutex() {
  std::lock_guard<std::mutex> lock(leaves().mutex);
  leaves().all.push_back(this);
}

}  // namespace tc
