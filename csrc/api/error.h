// How exceptions of the core leave through the C interface.
#pragma once

#include <utility>

#include "base/error.h"

namespace tc::api {

/// Keeps the exception in flight as the calling thread's last error and returns its code. Must be
/// called inside a catch block; knows our errors, Halide's, isl's and the standard library's.
tc_status record_current_exception() noexcept;

/// Runs a body that may throw.
template <class Body>
tc_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return TC_OK;
  } catch (...) {
    return record_current_exception();
  }
}

/// What a body gives; where it throws 0 or NULL, and the error is kept.
template <class Body>
auto value_or_zero(Body&& body) noexcept -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    record_current_exception();
    return {};
  }
}

}  // namespace tc::api
