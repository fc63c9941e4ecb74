#include "torch/python/python_values.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string>

namespace py = pybind11;

namespace tc_torch {
namespace {

/// An integer as Python's own; null where it is none, as for an array of NumPy that holds a float.
py::object index_of(const py::object& value) {
  if (!PyIndex_Check(value.ptr())) return {};
  auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) PyErr_Clear();
  return index;
}

}  // namespace

std::vector<c10::IValue> to_ivalues(const Definition& definition, const Values& values) {
  std::vector<c10::IValue> result;
  result.reserve(values.size());
  if (values.size() != definition.inputs.size())
    raise(TC_SHAPE_ERROR, definition.name, " expected ", definition.inputs.size(),
          definition.inputs.size() == 1 ? " input" : " inputs", " but found ", values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const ArgumentInfo& info = definition.inputs[i];
    py::object value = values[i];
    auto wrong = [&](const char* expected) {
      raise(TC_SHAPE_ERROR, "argument ", info.name, ": expected ", expected, " but got ",
            py::str(py::type::of(value).attr("__name__")).cast<std::string>());
    };
    bool is_tensor = THPVariable_Check(value.ptr());
    py::detail::make_caster<bool> flag;
    if (!info.scalar) {
      if (!is_tensor) wrong("a tensor");
      // These calls do not pass the dispatcher, which resolves lazy negation on its way.
      result.emplace_back(THPVariable_Unpack(value.ptr()).resolve_neg());
      continue;
    }
    if (is_tensor) {
      const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
      if (tensor.dim() != 0) wrong("a number or a 0-d tensor");
      at::Scalar scalar = tensor.item();
      if (scalar.type() == at::kUInt64) wrong("a number that fits int64");  // only a larger one is
      result.emplace_back(scalar.isFloatingPoint() ? c10::IValue(scalar.toDouble())
                          : scalar.isBoolean()     ? c10::IValue(scalar.toBool())
                                                   : c10::IValue(scalar.toLong()));
    } else if (flag.load(value, /*convert=*/false)) {  // NumPy's, too
      result.emplace_back(py::detail::cast_op<bool>(flag));
    } else if (PyFloat_Check(value.ptr())) {
      result.emplace_back(value.cast<double>());
    } else if (const auto index = index_of(value)) {
      int overflow = 0;
      long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
      if (overflow) wrong("a number that fits int64");
      result.emplace_back(static_cast<int64_t>(number));
    } else {
      const double number = PyFloat_AsDouble(value.ptr());
      if (PyErr_Occurred()) {
        PyErr_Clear();
        wrong("a number or a 0-d tensor");
      }
      result.emplace_back(number);
    }
    if (result.back().isDouble() && c10::isIntegralType(info.dtype, true)) wrong("an integer");
  }
  return result;
}

pybind11::str to_str(const std::string& text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!decoded) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

pybind11::str PythonKernel::text(const std::string& what) const {
  std::string text;
  {
    Unlocked unlocked;  // it may compile
    text = ask<const char*>(tc_kernel_text, kernel_.get(), what.c_str());
  }
  return to_str(text);
}

int64_t PythonKernel::number(const std::string& what) const {
  return ask<int64_t>(tc_kernel_number, kernel_.get(), what.c_str());
}

const char* c_text(const std::string& text) {
  if (text.find('\0') != std::string::npos)
    raise(TC_USAGE_ERROR, "a NUL character in \"", text.c_str(), "\"");
  return text.c_str();
}

}  // namespace tc_torch
