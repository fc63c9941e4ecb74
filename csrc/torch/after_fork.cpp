#include "torch/after_fork.h"

#include <dirent.h>
#include <pthread.h>

namespace tc_torch {
namespace {

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
[[maybe_unused]] const int registered = pthread_atfork([] { has_others = has_other_threads(); },
                                                       nullptr, [] { lost = lost || has_others; });

}  // namespace

bool lost_its_team() { return lost; }

}  // namespace tc_torch
