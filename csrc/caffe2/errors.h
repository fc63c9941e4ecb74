// Errors as Caffe2 has them.
#pragma once

#include <string>

#include "caffe2/caffe2.h"

namespace tc_caffe2 {

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
