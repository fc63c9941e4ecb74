// What fork waits for, so that a child finds nothing half done.
//
// A child of fork has one thread, the one that forked. What its other threads had locked stays
// locked, and what they were about to initialise is never ready: static objects of functions, of
// ours as of Halide and LLVM, have a guard that others then wait at for ever.
#pragma once

namespace tc {

enum class ForkStep {
  Tasks,  ///< waits for threads, which may need all locks for that
  Locks   ///< takes locks, and waits for nothing else
};

struct ForkHandlers {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();
};

/// As pthread_atfork, in whose order handlers that are added first run last; here those of tasks
/// run first, those of locks in the order in which they were added. Where static objects are
/// initialised as the library is loaded: a handler that is added while a process forks has to wait.
/// Returns true.
bool at_fork(ForkStep step, ForkHandlers handlers);

}  // namespace tc
