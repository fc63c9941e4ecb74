// Mutexes that a child of fork finds free.
#pragma once

#include <mutex>

namespace tc {

/// A mutex for short work that waits for nothing else, no other mutex and no interpreter: fork
/// waits for it, so that a child, which has none of the threads that may hold it, finds it free and
/// what it guards whole. It is never destroyed, and made as the library is loaded: a child would
/// wait for the rest of a function's first call that makes one.
class LeafMutex {
 public:
  LeafMutex();
  LeafMutex(const LeafMutex&) = delete;
  LeafMutex& operator=(const LeafMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

using LeafLock = std::lock_guard<LeafMutex>;

}  // namespace tc
