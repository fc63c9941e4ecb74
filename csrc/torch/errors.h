// How errors of the core leave this library.
#pragma once

#include <c10/util/StringUtil.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tc/tc.h"

namespace tc_torch {

/// A failure of the core, with what its thread-local state says.
struct CoreError : std::runtime_error {
  CoreError(tc_status status, const std::string& message, int line, int column)
      : std::runtime_error(message), status(status), line(line), column(column) {}
  tc_status status;
  int line, column;
};

/// Throws the calling thread's last error of the core unless the status is TC_OK. Inside Python
/// processes the error is raised as an exception of tensor_comprehensions (see binding.cpp).
void check(tc_status status);
/// What a function of the C interface gives by its last argument, behind these ones.
template <class Result, class Function, class... Arguments>
Result ask(Function function, const Arguments&... arguments) {
  Result result{};
  check(function(arguments..., &result));
  return result;
}
/// Whether the host wants the calling thread to stop waiting; set once by the Python binding.
extern bool (*interrupted)();
/// Runs what may take long, without a lock of the host's that the calling thread may have and that
/// others need meanwhile; set once by the Python binding.
extern void (*unlocked)(const std::function<void()>& body);
/// How errors leave; set once by the Python binding.
extern void (*raise_error)(const CoreError& error);
[[noreturn]] void raise_message(tc_status status, const std::string& message);
/// An error whose message is put together of parts.
template <class... Parts>
[[noreturn]] void raise(tc_status status, const Parts&... parts) {
  raise_message(status, c10::str(parts...));
}

}  // namespace tc_torch
