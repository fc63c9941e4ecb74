#include "torch/python/python_lock.h"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace tc_torch {

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

namespace {
std::atomic<std::thread::id> ending_thread{};
}

void note_ending() { ending_thread = std::this_thread::get_id(); }

bool ends_here() { return ending_thread == std::this_thread::get_id(); }

void wait_for_the_end() {
  while (true) pause();
}

pybind11::object call_python(const pybind11::object& function, const pybind11::tuple& arguments) {
  PyObject* result = nullptr;
  try {
    // No C++ object may lie between Python and the handler: it would drop references without the
    // lock.
    result = PyObject_Call(function.ptr(), arguments.ptr(), nullptr);
  } catch (abi::__forced_unwind&) {
    wait_for_the_end();
  }
  if (!result) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

void Unlocked::lock_again(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    wait_for_the_end();
  }
}

}  // namespace tc_torch
