// Values of the dispatcher as Python's.
#pragma once

#include <torch/extension.h>

namespace tc_torch {

/// A tensor, None for one that is undefined, or a number.
inline pybind11::object to_python(const c10::IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return pybind11::none();
    return pybind11::reinterpret_steal<pybind11::object>(THPVariable_Wrap(value.toTensor()));
  }
  if (value.isDouble()) return pybind11::float_(value.toDouble());
  if (value.isBool()) return pybind11::bool_(value.toBool());
  return pybind11::int_(value.toInt());
}

}  // namespace tc_torch
