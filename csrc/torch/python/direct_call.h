// Calls of operators that need none of PyTorch's own conversions.
#pragma once

#include <ATen/core/stack.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "torch/operator.h"
#include "torch/python/python_lock.h"

namespace tc_torch {

/// Tensors and numbers as an operator takes them. Holds the tensors: without another owner a kernel
/// that lets go of one has to take the interpreter lock, to tell its Python object.
struct PlainArguments {
  torch::jit::Stack stack;
  std::vector<at::Tensor> tensors;
};

/// Nothing where calls are watched, or arguments are not what the operator takes as they are.
std::optional<PlainArguments> plain_arguments(const std::vector<ArgumentInfo>& infos,
                                              const pybind11::args& arguments);

/// Whether something looks at calls, or changes them, that a direct one would pass by.
bool is_watched();
/// Whether nothing but the operator itself has to see to the tensors of a call.
bool are_plain(const Definition& definition, at::ArrayRef<c10::IValue> inputs,
               at::ArrayRef<at::Tensor> outputs);
/// For what is no operator: an error where a graph is made, or tensors are no memory.
void refuse_graphs(const Definition& definition, at::ArrayRef<c10::IValue> inputs,
                   at::ArrayRef<at::Tensor> outputs);

/// One result as itself, several as a tuple.
pybind11::object to_python(const torch::jit::Stack& results);

/// Runs an operator on a stack, from Python and back; NotImplemented where plain_arguments gives
/// nothing.
template <class Run>
pybind11::object call_plain(const std::vector<ArgumentInfo>& infos, const pybind11::args& arguments,
                            const Run& run) {
  std::optional<PlainArguments> plain = plain_arguments(infos, arguments);
  if (!plain) return pybind11::reinterpret_borrow<pybind11::object>(Py_NotImplemented);
  {
    Unlocked unlocked;
    run(&plain->stack);
  }
  return to_python(plain->stack);
}

}  // namespace tc_torch
