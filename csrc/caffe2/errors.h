// Errors as Caffe2 has them.
#pragma once

#include <string>

#include "caffe2/caffe2.h"
#include "tc/tc.hpp"

namespace tc_caffe2 {

/// Throw errors of the core's types, with messages put together of parts.
template <class... Parts>
[[noreturn]] void usage_error(const Parts&... parts) {
  throw tensor_comprehensions::UsageError(TC_USAGE_ERROR, c10::str(parts...));
}
template <class... Parts>
[[noreturn]] void shape_error(const Parts&... parts) {
  throw tensor_comprehensions::ShapeError(TC_SHAPE_ERROR, c10::str(parts...));
}

/// Runs a function; errors of the core and of this binding become Caffe2's, with their message.
template <class Function>
auto as_caffe2(const std::string& operator_type, Function function) {
  try {
    return function();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    CAFFE_THROW(operator_type, ": ", error.what());
  }
}

}  // namespace tc_caffe2
