#include "torch/derivation.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/extension.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "torch/direct_call.h"
#include "torch/operator.h"
#include "torch/python_lock.h"
#include "torch/python_values.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Derivation;

/// The derivative of some results, as an operator: its arguments are the inputs, results of the
/// forward computation and gradients.
struct Part {
  c10::OperatorHandle handle;
  std::vector<int64_t> saved;   ///< which of the plan's results it reads
  std::vector<int64_t> places;  ///< of every input's gradient among its results; -1 where none is
};

/// What the derivative by certain inputs needs of a call.
struct Plan {
  Derivation* derivation = nullptr;
  std::vector<int64_t> key;
  std::vector<bool> wanted;      ///< of each input
  std::vector<bool> read;        ///< of each input: whether its values are needed
  std::vector<int64_t> results;  ///< whose values are needed
  /// By which results have gradients; none where it is zero. Used under the interpreter lock.
  mutable std::map<std::vector<bool>, std::optional<Part>> parts;
};

/// An operator with the Python object that knows its derivatives; lives as long as the process.
class Derivation {
 public:
  Derivation(std::shared_ptr<Operator> op, const std::string& name, py::object derivable)
      : operator_(std::move(op)),
        handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "")),
        derivable_(std::move(derivable)) {}

  /// Calls the operator and records it, where gradients are wanted. NotImplemented where a call is
  /// watched, or arguments are not what the operator takes as they are.
  py::object record(const py::args& arguments);
  /// The same for calls that are not recorded; of others it is asked how, while `asks`.
  py::object call(const py::args& arguments);

  bool asks = true;

  variable_list forward(AutogradContext* context, const Plan& plan,
                        const torch::jit::Stack& inputs);
  variable_list backward(AutogradContext* context, const Plan& plan,
                         const variable_list& gradients);

 private:
  const std::vector<ArgumentInfo>& infos() const { return operator_->definition().inputs; }
  const Plan& plan(const torch::jit::Stack& inputs);
  /// The inputs of a call; of those that are not read only the sizes.
  torch::jit::Stack recall(AutogradContext* context, const Plan& plan, const variable_list& saved,
                           at::Device device) const;
  const std::optional<Part>& find_part(const Plan& plan, const std::vector<bool>& given,
                                       const torch::jit::Stack& inputs);
  /// Through Python: what is differentiated again, or watched. A gradient for every input.
  variable_list pull_back(const Plan& plan, const torch::jit::Stack& inputs,
                          const variable_list& results, const variable_list& gradients);
  py::object run(const py::args& arguments, bool may_record);

  std::shared_ptr<Operator> operator_;
  c10::OperatorHandle handle_;
  py::object derivable_;
  std::vector<std::unique_ptr<Plan>> plans_;  ///< used under the interpreter lock
};

struct Recorded : torch::autograd::Function<Recorded> {
  static variable_list forward(AutogradContext* context, const Plan* plan,
                               const torch::jit::Stack* inputs, at::TensorList /*tensors*/) {
    context->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    return plan->derivation->forward(context, *plan, *inputs);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* plan = reinterpret_cast<const Plan*>(context->saved_data["plan"].toInt());
    return plan->derivation->backward(context, *plan, gradients);
  }
};

/// Where the scalar, or the sizes of a tensor that is not read, is kept.
std::string place_of(size_t input) { return std::to_string(input); }

variable_list Derivation::forward(AutogradContext* context, const Plan& plan,
                                  const torch::jit::Stack& inputs) {
  torch::jit::Stack stack = inputs;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    handle_.callBoxed(&stack);
  }
  variable_list results, saved, integral;
  for (const c10::IValue& value : stack) results.push_back(value.toTensor());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].isTensor())
      context->saved_data[place_of(k)] = inputs[k];
    else if (plan.read[k])
      saved.push_back(inputs[k].toTensor());
    else
      context->saved_data[place_of(k)] = inputs[k].toTensor().sizes();
  }
  for (int64_t k : plan.results) saved.push_back(results[k]);
  for (const at::Tensor& result : results)
    if (!result.is_floating_point()) integral.push_back(result);
  if (!integral.empty()) context->mark_non_differentiable(integral);
  context->set_materialize_grads(false);
  context->save_for_backward(std::move(saved));
  return results;
}

py::tuple to_flags(const std::vector<bool>& values) {
  py::tuple flags(values.size());
  for (size_t k = 0; k < values.size(); ++k) flags[k] = py::bool_(values[k]);
  return flags;
}

py::list to_list(const torch::jit::Stack& values) {
  py::list list;
  for (const c10::IValue& value : values) list.append(to_python(value));
  return list;
}

at::Tensor with_dimensions(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.reshape(1) : tensor;
}

/// With every element in a place of its own and none in between, in any order of the dimensions, as
/// the gradient of what was transposed afterwards: sum().backward() sends gradients of stride 0,
/// and parts of a tensor send what lies apart, for each of which one more kernel would be compiled.
at::Tensor dense(const at::Tensor& gradient) {
  return gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
}

torch::jit::Stack Derivation::recall(AutogradContext* context, const Plan& plan,
                                     const variable_list& saved, at::Device device) const {
  torch::jit::Stack inputs;
  auto next = saved.begin();
  for (size_t k = 0; k < infos().size(); ++k) {
    if (infos()[k].scalar) {
      inputs.push_back(context->saved_data.at(place_of(k)));
    } else if (plan.read[k]) {
      inputs.emplace_back(*next++);
    } else {
      inputs.emplace_back(at::empty({}, at::dtype(infos()[k].dtype).device(device))
                              .expand(context->saved_data.at(place_of(k)).toIntVector()));
    }
  }
  return inputs;
}

variable_list Derivation::backward(AutogradContext* context, const Plan& plan,
                                   const variable_list& gradients) {
  variable_list saved = context->get_saved_variables();
  at::Device device = at::kCPU;
  std::vector<bool> given;
  bool plain = !at::GradMode::is_enabled() && !is_watched();
  for (size_t r = 0; r < gradients.size(); ++r) {
    const at::Tensor& gradient = gradients[r];
    if (gradient.defined()) device = gradient.device();
    given.push_back(gradient.defined() &&
                    c10::isFloatingType(operator_->definition().outputs[r].dtype));
    plain = plain && (!gradient.defined() || is_plain(gradient));
  }
  plain = plain && std::all_of(saved.begin(), saved.end(), is_plain);
  torch::jit::Stack stack = recall(context, plan, saved, device);
  const variable_list results(saved.end() - static_cast<std::ptrdiff_t>(plan.results.size()),
                              saved.end());
  variable_list values;
  if (!plain) {
    values = pull_back(plan, stack, results, gradients);
  } else if (const std::optional<Part>& part = find_part(plan, given, stack)) {
    for (int64_t k : part->saved) stack.emplace_back(with_dimensions(results[k]));
    for (size_t r = 0; r < gradients.size(); ++r)
      if (given[r]) stack.emplace_back(with_dimensions(dense(gradients[r])));
    part->handle.callBoxed(&stack);
    for (int64_t place : part->places)
      values.push_back(place < 0 ? at::Tensor() : stack[place].toTensor());
  } else {
    values.resize(infos().size());
  }
  // One for each argument of Recorded::forward; the plan and the inputs as a whole have none.
  variable_list found(2);
  for (size_t k = 0; k < infos().size(); ++k)
    if (!infos()[k].scalar) found.push_back(values[k]);
  return found;
}

const std::optional<Part>& Derivation::find_part(const Plan& plan, const std::vector<bool>& given,
                                                 const torch::jit::Stack& inputs) {
  py::gil_scoped_acquire gil;
  auto known = plan.parts.find(given);
  if (known != plan.parts.end()) return known->second;
  py::object found =
      derivable_.attr("part")(to_flags(plan.wanted), to_flags(given), to_list(inputs));
  std::optional<Part> part;
  if (!found.is_none()) {
    auto [name, saved, places] =
        found.cast<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>>();
    part = Part{c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), ""), std::move(saved),
                std::move(places)};
  }
  return plan.parts.emplace(given, std::move(part)).first->second;
}

variable_list Derivation::pull_back(const Plan& plan, const torch::jit::Stack& inputs,
                                    const variable_list& results, const variable_list& gradients) {
  py::gil_scoped_acquire gil;
  auto to_stack = [](const variable_list& tensors) {
    return torch::jit::Stack(tensors.begin(), tensors.end());
  };
  py::sequence values =
      derivable_.attr("pull_back")(to_flags(plan.wanted), to_list(inputs),
                                   to_list(to_stack(results)), to_list(to_stack(gradients)));
  variable_list found;
  for (size_t k = 0; k < infos().size(); ++k) {
    py::object value = values[k];
    found.push_back(value.is_none() ? at::Tensor() : THPVariable_Unpack(value.ptr()));
  }
  return found;
}

const Plan& Derivation::plan(const torch::jit::Stack& inputs) {
  std::vector<int64_t> key;
  std::vector<bool> wanted;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const c10::IValue& value = inputs[k];
    wanted.push_back(value.isTensor() && value.toTensor().requires_grad() &&
                     value.toTensor().is_floating_point());
    if (infos()[k].specialized)
      key.push_back(value.isBool() ? value.toBool() : value.toInt());
    else
      key.push_back(wanted.back());
  }
  for (const auto& known : plans_)
    if (known->key == key) return *known;
  auto needed = derivable_.attr("needs")(to_flags(wanted), to_list(inputs));
  auto [read, results] = needed.cast<std::pair<std::vector<bool>, std::vector<int64_t>>>();
  auto added = std::make_unique<Plan>();
  *added = {this, std::move(key), std::move(wanted), std::move(read), std::move(results)};
  plans_.push_back(std::move(added));
  return *plans_.back();
}

py::object Derivation::record(const py::args& arguments) { return run(arguments, true); }

py::object Derivation::call(const py::args& arguments) { return run(arguments, !asks); }

py::object Derivation::run(const py::args& arguments, bool may_record) {
  auto not_implemented = py::reinterpret_borrow<py::object>(Py_NotImplemented);
  std::optional<PlainArguments> plain = plain_arguments(infos(), arguments);
  if (!plain) return not_implemented;
  const bool records = at::GradMode::is_enabled() &&
                       std::any_of(plain->tensors.begin(), plain->tensors.end(),
                                   [](const at::Tensor& tensor) { return tensor.requires_grad(); });
  if (!records) return call_plain(handle_, *plain);
  if (!may_record) return not_implemented;
  const Plan& needed = plan(plain->stack);
  variable_list results;
  {
    Unlocked unlocked;
    results = Recorded::apply(&needed, &plain->stack, at::TensorList(plain->tensors));
  }
  return to_python(results);
}

}  // namespace

void bind_derivation(py::module_& m) {
  // Recorded calls point to it until their graphs are gone, perhaps after the interpreter.
  py::class_<Derivation, std::unique_ptr<Derivation, py::nodelete>>(m, "Derivation")
      .def(py::init<std::shared_ptr<Operator>, const std::string&, py::object>(),
           py::arg("operator"), py::arg("name"), py::arg("derivable"))
      .def_readwrite("asks", &Derivation::asks)
      .def("record", &Derivation::record)
      .def("__call__", &Derivation::call);
}

}  // namespace tc_torch
