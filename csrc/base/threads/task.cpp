#include "base/threads/task.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/threads/fork.h"
#include "base/threads/out_of_memory.h"

namespace tc {
namespace {

// Reserved, not used: a text with as many levels as the language allows takes some 20 MiB.
constexpr size_t kStackBytes = size_t{64} << 20;
// What the deepest of the short functions take.
constexpr size_t kShortBytes = size_t{512} << 10;
// Half of what Ctrl-C may take to have an effect, and some for its own way.
constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kLong = std::chrono::seconds(1);
// What a fork waits at most until all tasks are between two steps.
constexpr auto kMostForking = std::chrono::seconds(5);

std::atomic<InterruptCheck> interrupt_check{nullptr};
thread_local Task* current = nullptr;

/// Tasks that run, so that the process does not end below them. Never destroyed.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Task*, int> tasks;  ///< with how often each is at rest
  bool ending = false;
  std::atomic<int> forking = 0;  ///< threads

  void rest() {
    std::lock_guard<std::mutex> lock(mutex);
    ++tasks[current];
    changed.notify_all();
  }
  void go_on() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return forking == 0; });
    --tasks[current];
  }

  /// Returns when all tasks are between two steps, if they come there in time, with the mutex.
  void wait_for_rest() {
    std::unique_lock<std::mutex> lock(mutex);
    ++forking;
    changed.wait_for(lock, kMostForking, [&] {
      return std::all_of(tasks.begin(), tasks.end(),
                         [](const auto& task) { return task.first == current || task.second > 0; });
    });
    lock.release();
  }
  void end_rest() {
    --forking;
    changed.notify_all();
    mutex.unlock();
  }
  void reset_in_child() {
    // What waits in the condition is gone, and cannot be woken.
    new (&mutex) std::mutex;
    new (&changed) std::condition_variable;
    tasks.clear();
    forking = 0;
    current = nullptr;
  }
};
Running& running = *new Running;

[[maybe_unused]] const bool handles_forks =
    at_fork(ForkStep::Tasks, {[] { running.wait_for_rest(); }, [] { running.end_rest(); },
                              [] { running.reset_in_child(); }});

void stay_while_forking() {
  if (running.forking == 0) return;
  running.rest();
  running.go_on();
}

void forget(Task* task) {
  std::lock_guard<std::mutex> lock(running.mutex);
  running.tasks.erase(task);
  running.changed.notify_all();
}

}  // namespace

void set_interrupt_check(InterruptCheck check) { interrupt_check = check; }

void leave_if_interrupted() {
  const InterruptCheck check = interrupt_check.load();
  if (check && check() != 0) throw Interrupted();
}

size_t stack_left() {
  // The lowest address of this thread's stack; the main thread's grows with its limit.
  thread_local const uintptr_t lowest = [] {
    pthread_attr_t attributes;
    void* address = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return uintptr_t{0};
    pthread_attr_getstack(&attributes, &address, &bytes);
    pthread_attr_destroy(&attributes);
    return reinterpret_cast<uintptr_t>(address);
  }();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (lowest == 0 || here < lowest) return std::numeric_limits<size_t>::max();
  return here - lowest;
}

void end_at_exit() {
  static const int at_exit = std::atexit(end_tasks);
  (void)at_exit;
}

void end_tasks() {
  std::unique_lock<std::mutex> lock(running.mutex);
  running.ending = true;
  for (const auto& [task, rests] : running.tasks) task->cancel();
  running.changed.wait(lock, [] { return running.tasks.empty(); });
}

Task::Task(std::string what, std::function<void()> work)
    : what_(std::move(what)), work_(std::move(work)) {}

void Task::start(const std::shared_ptr<Task>& task) {
  if (current) return task->work_and_tell();
  end_at_exit();
  // Before the task is announced: it must not be left so where memory runs out.
  auto kept = std::make_unique<std::shared_ptr<Task>>(task);
  {
    std::lock_guard<std::mutex> lock(running.mutex);
    if (running.ending) return task->end(std::make_exception_ptr(Interrupted()));
    running.tasks.emplace(task.get(), 0);
  }
  // Signals are for threads that the host knows.
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, run_thread, kept.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!failed) {
    kept.release();
    return;
  }
  std::lock_guard<std::mutex> lock(running.mutex);
  running.tasks.erase(task.get());
  running.changed.notify_all();
  task->end(std::make_exception_ptr(
      Error(TC_USAGE_ERROR, "out of memory or of threads: none could be started to compile in")));
}

void* Task::run_thread(void* given) {
  auto* kept = static_cast<std::shared_ptr<Task>*>(given);
  pthread_setname_np(pthread_self(), "tc-compile");
  current = kept->get();
  stay_while_forking();
  reserve_memory();
  (*kept)->work_and_tell();
  release_reserve();
  current = nullptr;
  // What runs at exit is in reverse order of its announcement: before the static objects that the
  // first task has made.
  static const int at_exit = std::atexit(end_tasks);
  (void)at_exit;
  forget(kept->get());  // before it may be destroyed: who ends all tasks refers to it
  delete kept;
  return nullptr;
}

void Task::work_and_tell() {
  std::exception_ptr failure;
  try {
    work_();
  } catch (const Cancelled&) {
    failure = std::make_exception_ptr(Interrupted());
  } catch (...) {
    failure = std::current_exception();
    if (cancelled_) failure = std::make_exception_ptr(Interrupted());
  }
  if (failure && out_of_memory_) failure = std::make_exception_ptr(std::bad_alloc());
  end(failure);
}

void Task::end(std::exception_ptr failure) {
  // What the work owns goes before those who wait do.
  work_ = nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = std::move(failure);
  done_ = true;
  changed_.notify_all();
}

void Task::wait() {
  const Rest rest;
  const auto start = std::chrono::steady_clock::now();
  bool told = false;
  std::unique_lock<std::mutex> lock(mutex_);
  ++waiting_;
  while (!done_) {
    if (changed_.wait_for(lock, kPoll, [&] { return done_; })) break;
    lock.unlock();
    const InterruptCheck check = interrupt_check.load();
    const bool leave = check && check() != 0;
    if (!leave && !told && std::chrono::steady_clock::now() - start > kLong) {
      told = true;
      const char* step = step_.load();
      tell("progress", concat(what_, " takes longer than a second", *step ? " (after: " : "", step,
                              *step ? ")" : ""));
    }
    lock.lock();
    if (leave) {
      // Also where it has just ended: who was asked has noted that there is an exception.
      if (--waiting_ == 0 && !done_) {
        lock.unlock();
        cancel();
      }
      throw Interrupted();
    }
  }
  --waiting_;
  if (failure_) std::rethrow_exception(failure_);
}

bool Task::is_done() {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

void run_short(const std::function<void()>& work) {
  if (current || stack_left() > kShortBytes) return work();
  auto task = std::make_shared<Task>("", work);
  Task::start(task);
  // Nobody leaves what takes no time: it refers to what its caller has.
  std::unique_lock<std::mutex> lock(task->mutex_);
  task->changed_.wait(lock, [&] { return task->done_; });
  if (task->failure_) std::rethrow_exception(task->failure_);
}

void Task::cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  for (const auto& [key, stop] : stops_) stop();
}

Task::Rest::Rest() {
  if (current) running.rest();
}

Task::Rest::~Rest() {
  if (current) running.go_on();
}

void Task::leave_if_cancelled() {
  if (!current) return;
  stay_while_forking();
  if (current->cancelled_) throw Cancelled();
}

bool Task::is_inside() { return current != nullptr; }

void Task::run_out_of_memory() { current->cancelled_ = current->out_of_memory_ = true; }

bool Task::is_out_of_memory() { return current->out_of_memory_; }

void Task::abandon(bool out_of_memory) {
  Task* const task = std::exchange(current, nullptr);
  {
    // What the work owns stays: the frames above refer to it.
    std::lock_guard<std::mutex> lock(task->mutex_);
    task->failure_ = out_of_memory
                         ? std::make_exception_ptr(std::bad_alloc())
                         : std::make_exception_ptr(Error(
                               TC_INTERNAL_ERROR, "internal error: the code generator gave up"));
    task->done_ = true;
    task->changed_.notify_all();
  }
  forget(task);
  for (;;) pause();
}

void Task::set_step(const char* step) {
  if (current) current->step_ = step;
}

void Task::add_stop(void* key, std::function<void()> stop) {
  if (!current) return;
  std::lock_guard<std::mutex> lock(current->mutex_);
  if (current->cancelled_) stop();
  current->stops_.emplace(key, std::move(stop));
}

void Task::remove_stop(void* key) {
  if (!current) return;
  std::lock_guard<std::mutex> lock(current->mutex_);
  current->stops_.erase(key);
}

}  // namespace tc
