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

/// Registers ns::name, which computes what `op` does under the name `of`, and differentiates itself
/// by the rule. Nothing where one of its name is there already. Returns the one that is there.
Differentiable* register_differentiable(const std::string& ns, const std::string& name,
                                        const std::shared_ptr<Operator>& op, const std::string& of,
                                        std::unique_ptr<DerivativeRule> rule,
                                        bool may_keep = false);

/// Takes an operator, by its name as "tc::f__...", out of the dispatcher again. Nobody may have
/// kept a handle of it: PyTorch does not look whether one is still good.
void unregister_operator(const std::string& name);

}  // namespace tc_torch
