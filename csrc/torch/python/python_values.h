// Values of the dispatcher as Python's.
#pragma once

#include <pybind11/typing.h>
#include <torch/extension.h>

#include <memory>
#include <string>
#include <vector>

#include "torch/operator.h"
#include "torch/python/python_lock.h"

namespace tc_torch {

/// A sequence of any values, for signatures that say so.
class Values : public pybind11::sequence {
 public:
  PYBIND11_OBJECT(Values, pybind11::sequence, PySequence_Check)
};

/// A function of any values.
using Function = pybind11::typing::Callable<pybind11::object(pybind11::ellipsis)>;

/// An object that C++ holds, and lets go of wherever it ends; it stays where the interpreter is
/// gone.
inline std::shared_ptr<pybind11::object> shared_object(const pybind11::object& object) {
  return {new pybind11::object(object), [](pybind11::object* kept) {
            if (interpreter_ends()) return;
            with_lock([&] { delete kept; });
          }};
}

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

/// A text of the core: the paths in it may be of any bytes, which are shown as \xff.
pybind11::str to_str(const std::string& text);

/// Python values as the operators take them: tensors as they are, numbers for scalars.
std::vector<c10::IValue> to_ivalues(const Definition& definition, const Values& values);

struct Options {
  OptionsPtr options;
};
/// As the C interface takes them.
inline const tc_options* get(const Options* options) {
  return options ? options->options.get() : nullptr;
}

/// A compiled kernel.
class PythonKernel {
 public:
  pybind11::str text(const std::string& what) const;
  int64_t number(const std::string& what) const;
  const tc_kernel* kernel() const { return kernel_.get(); }

 protected:
  KernelPtr kernel_;
};

/// For the C interface, where a text ends with its first NUL.
const char* c_text(const std::string& text);

}  // namespace tc_torch

namespace pybind11::detail {

template <>
struct handle_type_name<tc_torch::Values> {
  static constexpr auto name = const_name("collections.abc.Sequence[typing.Any]");
};

}  // namespace pybind11::detail
