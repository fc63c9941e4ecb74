// Calls of operators that need none of PyTorch's own conversions.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "torch/operator.h"

namespace tc_torch {

/// Tensors and numbers as an operator takes them. Holds the tensors: without another owner a kernel
/// that lets go of one has to take the interpreter lock, to tell its Python object.
struct PlainArguments {
  torch::jit::Stack stack;
  std::vector<at::Tensor> tensors;
};

/// Whether something looks at calls, or changes them, that a direct one would pass by.
bool is_watched();

/// Whether nothing but the operator itself has to see to a tensor.
bool is_plain(const at::Tensor& tensor);

/// Nothing where calls are watched, or arguments are not what the operator takes as they are.
std::optional<PlainArguments> plain_arguments(const std::vector<ArgumentInfo>& infos,
                                              const pybind11::args& arguments);

/// Through the dispatcher, from Python and back.
pybind11::object call_plain(const c10::OperatorHandle& handle, PlainArguments& arguments);

/// One result as itself, several as a tuple.
pybind11::object to_python(const torch::jit::Stack& results);

/// Adds the function direct_call to the module.
void bind_direct_call(pybind11::module_& m);

}  // namespace tc_torch
