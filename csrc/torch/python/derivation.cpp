// Operators that differentiate themselves, for Python: made, and called without its dispatch.
#include <pybind11/functional.h>
#include <torch/extension.h>

#include <memory>
#include <string>
#include <utility>

#include "torch/derivative_rules.h"
#include "torch/differentiable.h"
#include "torch/operator.h"
#include "torch/python/direct_call.h"
#include "torch/python/parts.h"
#include "torch/python/python_lock.h"
#include "torch/python/python_values.h"
#include "torch/registration.h"
#include "torch/schema.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

using Made = std::unique_ptr<Differentiable, py::nodelete>;

std::shared_ptr<const Definition> definition_of(const std::shared_ptr<Operator>& op) {
  return {op, &op->definition()};
}

using Maker = py::typing::Callable<std::string(std::string, std::string)>;

OperatorMaker python_maker(const Maker& make) {
  return [kept = shared_object(make)](const std::string& text, const std::string& ns) {
    return with_lock(
        [&] { return call_python(*kept, py::make_tuple(text, ns)).cast<std::string>(); });
  };
}

std::pair<std::string, std::string> split_name(const std::string& name) {
  size_t at = name.find("::");
  return {name.substr(0, at), name.substr(at + 2)};
}

/// Nothing where arguments are not what the operator takes as they are, or something looks on.
py::object call(Differentiable& differentiable, const py::Args<py::object>& arguments) {
  return call_plain(differentiable.definition().inputs, arguments,
                    [&](torch::jit::Stack* stack) { differentiable.call(stack); });
}

}  // namespace

void bind_derivation(py::module_& m) {
  py::class_<Differentiable, Made>(m, "Differentiable")
      .def("__call__", call)
      .def_property(
          "may_keep", [](const Differentiable& d) { return d.may_keep.load(); },
          [](Differentiable& d, bool value) { d.may_keep = value; });
  m.def("derived_name", derived_name, py::arg("name"));
  m.def("paired_name", paired_name, py::arg("forward"), py::arg("backward"));
  m.def("is_backward_of", is_backward_of, py::arg("forward"), py::arg("backward"));
  m.def(
      "register_derived",
      [](const std::shared_ptr<Operator>& op, const std::string& name, const Maker& make) {
        auto [ns, own] = split_name(name);
        return register_differentiable(ns, derived_name(own), op, name,
                                       derived_rule(definition_of(op), python_maker(make)));
      },
      py::arg("operator"), py::arg("name"), py::arg("make"), py::return_value_policy::reference);
  m.def(
      "register_paired",
      [](const std::shared_ptr<Operator>& forward, const std::string& name,
         const std::shared_ptr<Operator>& backward, const std::string& backward_name,
         const std::string& as) {
        return register_differentiable(
            split_name(name).first, as, forward, name,
            paired_rule(definition_of(forward), definition_of(backward), backward_name));
      },
      py::arg("forward"), py::arg("name"), py::arg("backward"), py::arg("backward_name"),
      py::arg("registered"), py::return_value_policy::reference);
}

}  // namespace tc_torch
