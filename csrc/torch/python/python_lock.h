// The interpreter lock, also while the interpreter ends.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <utility>

namespace tc_torch {

/// Whether no thread but the one that ends it may use the interpreter any more.
bool interpreter_ends();

/// The calling thread ends the interpreter, from now on.
void note_ending();
/// Whether it is the calling thread that does, and may use it to the last.
bool ends_here();

/// Never returns. Python ends threads that want the lock after the interpreter has ended by
/// unwinding them, through functions that may not throw and handlers that catch everything: the
/// process would abort. Here they wait for the end of the process instead, as they do from
/// Python 3.14 on.
[[noreturn]] void wait_for_the_end();

/// function(*arguments), with the interpreter lock.
pybind11::object call_python(const pybind11::object& function, const pybind11::tuple& arguments);

/// Runs a body with the interpreter lock, from any thread.
template <class Body>
auto with_lock(Body&& body) -> decltype(body()) {
  if (interpreter_ends() && !ends_here()) wait_for_the_end();
  std::optional<pybind11::gil_scoped_acquire> lock;
  try {
    lock.emplace();
  } catch (abi::__forced_unwind&) {
    wait_for_the_end();
  }
  return std::forward<Body>(body)();
}

/// Lets go of the interpreter lock while it lives.
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

}  // namespace tc_torch
