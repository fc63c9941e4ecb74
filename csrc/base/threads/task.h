// Long work on a thread of its own, which those who wait for it may leave.
//
// A compilation takes time that Ctrl-C has to end, and recurses more deeply than the stacks of some
// threads allow. Neither isl nor LLVM can be interrupted from outside, so that the work has a
// thread, and who waits for it asks the host from time to time whether to go on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"

namespace tc {

/// The host asked a waiting caller to stop (see tc_set_interrupt).
class Interrupted : public Error {
 public:
  Interrupted() : Error(TC_INTERRUPTED, "interrupted") {}
};

/// Whether the host wants the calling thread to stop waiting; null: never.
using InterruptCheck = int (*)();
void set_interrupt_check(InterruptCheck check);
/// For who waits by itself: throws Interrupted where the host says so.
void leave_if_interrupted();

class Task {
 public:
  /// Work that is not started yet; `what` it is, for those who wait longer than a second. Who waits
  /// may leave before the work is done, so that it must own all that it refers to.
  Task(std::string what, std::function<void()> work);
  /// On a thread of its own; inside of another task's thread at once, on that. A failure to start
  /// one is what the task ends with.
  static void start(const std::shared_ptr<Task>& task);

  /// Returns when the work is done, or throws what it threw. Interrupted where the host says so;
  /// when the last of those who wait is, the task is cancelled.
  void wait();
  bool is_cancelled() const { return cancelled_; }
  bool is_done();

  /// For the work itself, between two steps: leaves it where it was cancelled, and stays here while
  /// another thread forks. Outside of tasks nothing happens.
  static void leave_if_cancelled();
  /// As long as it lives, the task of this thread counts as one that is between two steps: fork
  /// does not wait for it. For what waits for other threads; outside of tasks nothing happens.
  class Rest {
   public:
    Rest();
    ~Rest();
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
  };
  /// Whether the calling thread is a task's.
  static bool is_inside();
  /// Cancels the task of this thread, for want of memory.
  static void run_out_of_memory();
  static bool is_out_of_memory();
  /// Tells who waits that the task of this thread has failed, and stops the thread for ever.
  [[noreturn]] static void abandon(bool out_of_memory);
  /// What the task of this thread is at, as a stage of the compiler.
  static void set_step(const char* step);

  /// Something of the running task that its cancellation has to stop, as an isl context; called
  /// from another thread, perhaps never. It must be valid until `remove_stop`.
  static void add_stop(void* key, std::function<void()> stop);
  static void remove_stop(void* key);

 private:
  struct Cancelled {};
  friend void end_at_exit();
  friend void end_tasks();
  friend void run_short(const std::function<void()>& work);
  static void* run_thread(void* task);
  void work_and_tell();
  void end(std::exception_ptr failure);
  void cancel();

  const std::string what_;
  std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;
  std::map<void*, std::function<void()>> stops_;
  std::atomic<const char*> step_{""};
  std::atomic<bool> cancelled_{false}, out_of_memory_{false};
  int waiting_ = 0;
  bool done_ = false;
};

/// The result of long work, which must own all that it refers to.
template <class Work>
auto run_apart(std::string what, Work work) -> decltype(work()) {
  auto result = std::make_shared<std::optional<decltype(work())>>();
  auto task = std::make_shared<Task>(
      std::move(what), [result, work = std::move(work)]() mutable { *result = work(); });
  Task::start(task);
  task->wait();
  return std::move(**result);
}

/// Cancels all tasks, waits until none runs, and starts none any more. At the process's end this
/// has happened; hosts that know of it earlier say so, since LLVM's static objects may go before.
void end_tasks();

/// Runs what is short, as a check of arguments: on the calling thread where its stack suffices.
void run_short(const std::function<void()>& work);

/// Bytes of the calling thread's stack that are left; a large number where they are not known.
size_t stack_left();

}  // namespace tc
