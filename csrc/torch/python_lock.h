// The interpreter lock, also while the interpreter ends.
#pragma once

#include <Python.h>

namespace tc_torch {

/// Whether no thread but the one that ends it may use the interpreter any more.
bool interpreter_ends();

/// Lets go of the interpreter lock while it lives. Python ends threads that want the lock back
/// after the interpreter has ended by unwinding them, through destructors that may not throw: the
/// process would abort. Here they wait for the end of the process instead, as they do from
/// Python 3.14 on.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { lock_again(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  static void lock_again(PyThreadState* state) noexcept;
  PyThreadState* state_;
};

/// Never returns.
[[noreturn]] void wait_for_the_end();

}  // namespace tc_torch
