// How exceptions of the core, and what is made for a caller, leave through the C interface.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/arguments.h"
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

/// An element of a list by the caller's number; `what` it is, for messages.
template <class List>
auto& at(List& list, int32_t index, const char* what) {
  check_index(index, list.size(), what);
  return list[index];
}

/// How many there are, as the C interface counts.
template <class List>
int32_t count_of(const List& list) {
  return static_cast<int32_t>(list.size());
}

/// Gives the caller as much of a list as its array has room for, and how long the list is.
template <class List, class T>
void give_list(const List& list, T* array, int32_t capacity, int32_t* count) {
  std::copy_n(list.begin(), std::min(list.size(), static_cast<size_t>(capacity)), array);
  *count = count_of(list);
}

/// Gives the caller what `make` makes, by its argument of this name, which is 0 after a failure.
template <class T, class Make>
tc_status give(T* result, const char* name, const Make& make) noexcept {
  clear(result);
  return guarded([&] {
    required(result, name);
    *result = static_cast<T>(make());
  });
}

/// Gives the caller, by its argument of this name, a text that lives until the thread's next call
/// of the same function: every lambda has a type, and so a place for its text, of its own.
template <class Make>
tc_status give_text(const char** text, const char* name, const Make& make) noexcept {
  return give(text, name, [&] {
    thread_local std::string kept;
    kept = make();
    return kept.c_str();
  });
}

}  // namespace tc::api
