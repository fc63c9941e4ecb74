// How exceptions of the core leave through the C interface.
#pragma once

#include <utility>

#include "base/error.h"

namespace tc::api {

/// Keeps the exception in flight as the calling thread's last error and returns its code. Must be
/// called inside a catch block; knows our errors, Halide's, isl's and the standard library's.
tc_status record_current_exception();

/// Runs a body that may throw.
template <class Body>
tc_status guarded(Body&& body) {
  try {
    std::forward<Body>(body)();
    return TC_OK;
  } catch (...) {
    return record_current_exception();
  }
}

/// A required pointer of the interface; UsageError that names it when null.
template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) throw UsageError(concat(name, " must not be NULL"));
  return *pointer;
}

}  // namespace tc::api
