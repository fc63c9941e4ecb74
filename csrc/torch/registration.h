// What PyTorch's dispatcher does with an operator: kernels for each of its keys, and their
// registration.
#pragma once

#include <memory>
#include <string>

#include "torch/differentiable.h"
#include "torch/operator.h"

namespace tc_torch {

/// Registers `schema` (without namespace) for CPU, CUDA and Autograd, and the overload `out`. Kept
/// for the process: PyTorch cannot forget an operator that may be in a graph.
void register_operator(const std::string& ns, const std::string& schema,
                       const std::string& out_schema, std::shared_ptr<Operator> op);

/// Registers `schema` (without namespace), that of an operator which differentiates itself. Nothing
/// where one of its name is there already.
void register_differentiable(const std::string& ns, const std::string& schema,
                             std::unique_ptr<Differentiable> differentiable);

/// Takes an operator, by its name as "tc::f__...", out of the dispatcher again. Nobody may have
/// kept a handle of it: PyTorch does not look whether one is still good.
void unregister_operator(const std::string& name);

}  // namespace tc_torch
