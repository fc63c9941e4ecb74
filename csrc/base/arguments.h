// What the C interface asks of its arguments before it uses them. Each check throws a UsageError
// that names the argument.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "tc/tc.h"

namespace tc::api {

/// A pointer that must not be NULL.
template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) throw UsageError(name, " must not be NULL");
  return *pointer;
}

/// Empties what a function writes, so that nobody takes what an earlier call left there for the
/// result of one that fails.
template <class... T>
void clear(T*... results) noexcept {
  ((results ? void(*results = T{}) : void()), ...);
}

/// An array may be NULL only where it has no elements, and no count is negative.
void check_array(const void* array, const char* name, int32_t count, const char* count_name);

/// A number of one of `count` things, each a `what`.
void check_index(int32_t index, size_t count, const char* what);

/// The functions that a kernel may call; `gpu` for a kernel of a GPU. Called for every launch.
inline void check_host(const tc_host& host, bool gpu) {
  bool complete = host.parallel_for && host.thread_count && host.allocate && host.release;
  if (complete && (!gpu || host.stream)) return;
  const char* missing = !host.parallel_for   ? "parallel_for"
                        : !host.thread_count ? "thread_count"
                        : !host.allocate     ? "allocate"
                        : !host.release      ? "release"
                                             : "stream";
  throw UsageError("host: ", missing, " must not be NULL; tc_default_host has all of them");
}

}  // namespace tc::api
