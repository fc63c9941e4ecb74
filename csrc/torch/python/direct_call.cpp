#include "torch/python/direct_call.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/extension.h>

#include <memory>
#include <string>
#include <utility>

#include "torch/python/parts.h"
#include "torch/python/python_values.h"

namespace py = pybind11;

namespace tc_torch {

bool is_watched() {
  using c10::DispatchKey;
  return c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerFrontMode) ||
         at::impl::torch_function_mode_enabled() || torch::jit::tracer::isTracing() ||
         at::autocast::is_autocast_enabled(at::kCPU) ||
         at::autocast::is_autocast_enabled(at::kCUDA);
}

namespace {

/// Whether nothing but the operator itself has to see to a tensor.
bool is_plain(const at::Tensor& tensor) {
  return !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

/// What a tensor passed for a scalar holds; nothing where it is more than that.
std::optional<c10::IValue> number_of(const ArgumentInfo& info, const at::Tensor& tensor) {
  using c10::DispatchKey;
  static constexpr c10::DispatchKeySet wrapped(
      {DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchBatched});
  if (!tensor.is_cpu() || tensor.dim() != 0 || tensor.layout() != at::kStrided ||
      !is_plain(tensor) || tensor.unsafeGetTensorImpl()->key_set().has_any(wrapped) ||
      tensor.is_complex() || (tensor.requires_grad() && at::GradMode::is_enabled()))
    return std::nullopt;
  if (c10::isFloatingType(info.dtype)) return c10::IValue(tensor.item().toDouble());
  if (tensor.is_floating_point()) return std::nullopt;
  if (info.dtype == at::kBool) return c10::IValue(tensor.item().toBool());
  return c10::IValue(tensor.item().toLong());
}

/// The argument of an operator; nothing where PyTorch's own conversions have to see to it.
std::optional<c10::IValue> to_ivalue(const ArgumentInfo& info, PyObject* value) {
  if (!info.scalar) {
    if (!THPVariable_CheckExact(value)) return std::nullopt;
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!is_plain(tensor)) return std::nullopt;
    return c10::IValue(tensor);
  }
  if (THPVariable_CheckExact(value)) return number_of(info, THPVariable_Unpack(value));
  if (info.dtype == at::kBool) {
    if (!PyBool_Check(value)) return std::nullopt;
    return c10::IValue(value == Py_True);
  }
  if (PyFloat_CheckExact(value) && c10::isFloatingType(info.dtype))
    return c10::IValue(PyFloat_AS_DOUBLE(value));
  if (!PyLong_CheckExact(value)) return std::nullopt;
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow) return std::nullopt;
  if (c10::isFloatingType(info.dtype)) return c10::IValue(static_cast<double>(number));
  return c10::IValue(number);
}

/// The argument for which this holds; null where there is none.
template <class Predicate>
const ArgumentInfo* find_tensor(const Definition& definition, at::ArrayRef<c10::IValue> inputs,
                                at::ArrayRef<at::Tensor> outputs, const Predicate& holds) {
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k].isTensor() && holds(inputs[k].toTensor())) return &definition.inputs[k];
  for (size_t k = 0; k < outputs.size(); ++k)
    if (holds(outputs[k])) return &definition.outputs[k];
  return nullptr;
}

}  // namespace

bool are_plain(const Definition& definition, at::ArrayRef<c10::IValue> inputs,
               at::ArrayRef<at::Tensor> outputs) {
  return !find_tensor(definition, inputs, outputs, [](const at::Tensor& tensor) {
    return tensor.is_meta() || !is_plain(tensor);
  });
}

void refuse_graphs(const Definition& definition, at::ArrayRef<c10::IValue> inputs,
                   at::ArrayRef<at::Tensor> outputs) {
  using c10::DispatchKey;
  using c10::impl::TorchDispatchModeTLS;
  static constexpr c10::DispatchKeySet wrapped(
      {DispatchKey::Python, DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchBatched,
       DispatchKey::Functionalize});
  if (const ArgumentInfo* info =
          find_tensor(definition, inputs, outputs, [](const at::Tensor& tensor) {
            return tensor.unsafeGetTensorImpl()->key_set().has_any(wrapped);
          }))
    raise(TC_USAGE_ERROR, "argument ", info->name, " of ", definition.name,
          ": an executor runs on tensors in memory, and not on fake ones, DTensors, or what "
          "torch.func wraps; call the definition through tensor_comprehensions.define");
  if (torch::jit::tracer::isTracing() ||
      (TorchDispatchModeTLS::any_modes_set() &&
       TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::PROXY)))
    raise(TC_USAGE_ERROR, definition.name,
          ": an executor is no operator, and a graph that is traced would hold its results as "
          "constants; call the definition through tensor_comprehensions.define");
}

std::optional<PlainArguments> plain_arguments(const std::vector<ArgumentInfo>& infos,
                                              const py::args& arguments) {
  if (arguments.size() != infos.size() || is_watched()) return std::nullopt;
  PlainArguments plain;
  plain.stack.reserve(infos.size());
  plain.tensors.reserve(infos.size());
  for (size_t k = 0; k < infos.size(); ++k) {
    std::optional<c10::IValue> value = to_ivalue(infos[k], PyTuple_GET_ITEM(arguments.ptr(), k));
    if (!value) return std::nullopt;
    if (value->isTensor()) plain.tensors.push_back(value->toTensor());
    plain.stack.push_back(std::move(*value));
  }
  return plain;
}

py::object to_python(const torch::jit::Stack& results) {
  if (results.size() == 1) return to_python(results[0]);
  py::tuple several(results.size());
  for (size_t k = 0; k < results.size(); ++k) several[k] = to_python(results[k]);
  return several;
}

void bind_direct_call(py::module_& m) {
  m.def(
      "direct_call",
      [](std::shared_ptr<Operator> op, const std::string& name) {
        c10::OperatorHandle handle =
            c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
        return Function(py::cpp_function([op, handle](const py::args& arguments) {
          return call_plain(op->definition().inputs, arguments,
                            [&](torch::jit::Stack* stack) { handle.callBoxed(stack); });
        }));
      },
      py::arg("operator"), py::arg("name"));
}

}  // namespace tc_torch
