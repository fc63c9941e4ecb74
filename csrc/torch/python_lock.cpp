#include "torch/python_lock.h"

#include <cxxabi.h>
#include <unistd.h>

namespace tc_torch {

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

void wait_for_the_end() {
  while (true) pause();
}

void Unlocked::lock_again(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    wait_for_the_end();
  }
}

}  // namespace tc_torch
