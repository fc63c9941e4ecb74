// Operators that differentiate themselves: the derivative is what the dispatcher does for autograd,
// so that graphs which call them, exported or traced, train wherever these operators are
// registered.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "torch/derivative_rules.h"

namespace tc_torch {

/// An operator with its derivative. Recorded calls hold it.
class Differentiable {
 public:
  /// `name` is that of the operator which computes the results, as "tc::f__...".
  Differentiable(std::shared_ptr<Operator> op, const std::string& name,
                 std::unique_ptr<DerivativeRule> rule);
  ~Differentiable();

  /// Replaces the arguments on the stack by the results. The call is recorded where gradients are
  /// wanted, and takes tangents along.
  void call(torch::jit::Stack* stack);
  /// The operator without a derivative.
  const c10::OperatorHandle& handle() const { return handle_; }
  const Definition& definition() const { return operator_->definition(); }

  /// Whether a recorded call may run a definition with more results.
  std::atomic<bool> may_keep{false};
  /// How many of the results a user sees, and may send gradients to.
  std::atomic<size_t> seen;
  /// The operator that differentiates itself.
  std::optional<c10::OperatorHandle> own;
  /// Itself, once it is kept.
  std::weak_ptr<Differentiable> kept;

  /// What the derivative by certain inputs needs of a call.
  struct Plan;
  /// Gradients of all inputs; `inputs` and `results` are what the plan needs.
  std::vector<at::Tensor> pull_back(const Plan& plan, torch::jit::Stack inputs,
                                    at::ArrayRef<at::Tensor> results,
                                    const std::vector<at::Tensor>& gradients);
  /// Of a call with these arguments, by those that are `wanted`.
  const Plan& find_plan(const Flags& wanted, const torch::jit::Stack& inputs);
  /// Whether a derivative takes the gradient of this result, if there is one.
  bool takes_gradient(size_t result) const;

 private:
  using Key = std::vector<int64_t>;
  Key key_of(const Flags& wanted, const torch::jit::Stack& inputs) const;
  const std::optional<GradientCall>& find_gradient(const Plan& plan, const Flags& given,
                                                   const torch::jit::Stack& inputs);
  const std::optional<TangentCall>& find_tangent(const Flags& wanted,
                                                 const torch::jit::Stack& inputs);
  const std::optional<c10::OperatorHandle>& find_keeping(const torch::jit::Stack& inputs);
  bool prepare(const Plan& plan, const torch::jit::Stack& inputs);
  void compute(torch::jit::Stack* stack) const;
  void record(torch::jit::Stack* stack, const torch::jit::Stack& inputs, bool moves);
  void push_forward(const torch::jit::Stack& inputs, at::ArrayRef<c10::IValue> results);

  std::shared_ptr<Operator> operator_;
  c10::OperatorHandle handle_;
  std::unique_ptr<DerivativeRule> rule_;
  /// Never held while the rule is asked, which may wait for Python's lock.
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<Key, std::optional<TangentCall>> tangents_;
  std::optional<std::optional<c10::OperatorHandle>> keeping_;
};

/// The operator that differentiates itself by a name, as "tc::f__..._derived"; null where there is
/// none.
Differentiable* find_differentiable(const std::string& name);
/// Keeps it under this name; null where the name was taken already.
Differentiable* keep_differentiable(const std::string& name,
                                    std::unique_ptr<Differentiable> differentiable);
/// Whether a graph of autograd holds a call of it.
bool is_recorded(const std::string& name);
/// Forgets it, where no graph does.
void drop_differentiable(const std::string& name);

}  // namespace tc_torch
