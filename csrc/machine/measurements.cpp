#include "machine/measurements.h"

#include <mutex>
#include <new>
#include <unordered_map>

#include "base/threads/fork.h"
#include "base/threads/task.h"

namespace tc::machine {
namespace {

struct Measurements {
  std::recursive_mutex measuring;
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<double>> known;
};

/// Never destroyed: something may be compiled while the process exits.
Measurements& all = *new Measurements;

// In a child there is no thread that measures, and would unlock.
[[maybe_unused]] const bool handles_forks =
    at_fork(ForkStep::Locks, {[] { all.mutex.lock(); }, [] { all.mutex.unlock(); },
                              [] {
                                new (&all.measuring) std::recursive_mutex;
                                new (&all.mutex) std::mutex;
                              }});

/// Another task may measure, and stay where it is while a third thread forks.
std::unique_lock<std::recursive_mutex> measure_alone() {
  const Task::Rest rest;
  return std::unique_lock<std::recursive_mutex>(all.measuring);
}

}  // namespace

std::optional<std::vector<double>> find_measured(const std::string& what) {
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.known.find(what);
  if (found == all.known.end()) return std::nullopt;
  return found->second;
}

std::vector<double> measure_once(const std::string& what,
                                 const std::function<std::vector<double>()>& measure) {
  if (auto known = find_measured(what)) return *known;
  const auto alone = measure_alone();
  if (auto known = find_measured(what)) return *known;
  std::vector<double> values = measure();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.known.emplace(what, std::move(values)).first->second;
}

}  // namespace tc::machine
