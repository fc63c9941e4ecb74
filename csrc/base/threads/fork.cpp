#include "base/threads/fork.h"

#include <pthread.h>

#include <mutex>
#include <vector>

namespace tc {
namespace {

struct AllHandlers {
  std::mutex mutex;
  std::vector<ForkHandlers> tasks, locks;

  void before() {
    mutex.lock();
    for (const ForkHandlers& each : tasks) each.before();
    for (const ForkHandlers& each : locks) each.before();
  }
  void after(void (*ForkHandlers::*handler)()) {
    for (auto each = locks.rbegin(); each != locks.rend(); ++each) ((*each).*handler)();
    for (auto each = tasks.rbegin(); each != tasks.rend(); ++each) ((*each).*handler)();
    mutex.unlock();
  }
};

/// Never destroyed: a process may fork while it ends.
AllHandlers& all_handlers() {
  static auto* all = [] {
    pthread_atfork([] { all_handlers().before(); },
                   [] { all_handlers().after(&ForkHandlers::in_parent); },
                   // The thread that goes on in the child is the one that has locked.
                   [] { all_handlers().after(&ForkHandlers::in_child); });
    return new AllHandlers;
  }();
  return *all;
}

}  // namespace

bool at_fork(ForkStep step, ForkHandlers handlers) {
  AllHandlers& all = all_handlers();
  std::lock_guard<std::mutex> lock(all.mutex);
  (step == ForkStep::Tasks ? all.tasks : all.locks).push_back(handlers);
  return true;
}

}  // namespace tc
