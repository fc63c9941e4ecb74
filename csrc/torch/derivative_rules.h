// How definitions are differentiated: which operators compute their derivatives, and from what.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/operator.h"

namespace tc_torch {

using Flags = std::vector<bool>;

/// What a map has for a key, which is made where it is missing: without the lock, since that takes
/// time and may wait for Python's. Of what two threads make at once, the first stays.
template <class Map, class Make>
const typename Map::mapped_type& find_or_make(std::mutex& mutex, Map& map,
                                              const typename Map::key_type& key, const Make& make) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = map.find(key);
    if (found != map.end()) return found->second;
  }
  typename Map::mapped_type made = make();
  std::lock_guard<std::mutex> lock(mutex);
  return map.emplace(key, std::move(made)).first->second;
}

/// What the derivative by certain inputs needs of a call.
struct Needs {
  Flags read;                    ///< of each input: whether its values count, or only its sizes
  std::vector<int64_t> results;  ///< whose values are needed
};

/// The operator that computes gradients of inputs. Its arguments are the inputs of the forward
/// computation, results of it, and gradients of results.
struct GradientCall {
  c10::OperatorHandle handle;
  std::vector<int64_t> saved;   ///< which of the results that `Needs` lists it reads
  std::vector<int64_t> places;  ///< of every input's gradient among its results; -1 where none is
  std::vector<int64_t> ranks;   ///< of its parameters behind the inputs
};

/// The operator that computes what results make of tangents. Its arguments are the inputs of the
/// forward computation, results of it, then those that are differentiated, of which only the sizes
/// count, and tangents of inputs.
struct TangentCall {
  c10::OperatorHandle handle;
  std::vector<int64_t> saved;  ///< the results of the forward computation that it reads
  std::vector<int64_t> sized;  ///< the results that are differentiated
  std::vector<int64_t> moved;  ///< the inputs whose tangents it takes
  std::vector<int64_t>
      places;  ///< of the tangent of each of `sized` among its results; -1 for none
};

/// Of one operator. Where sizes depend on scalars, their values are taken from `inputs`. Errors
/// leave as those of the core do.
class DerivativeRule {
 public:
  virtual ~DerivativeRule() = default;
  /// Of all results, by the inputs that are `wanted`.
  virtual Needs needs(const Flags& wanted, const torch::jit::Stack& inputs) = 0;
  /// Of the results that are `given`; nothing where no wanted input is reached.
  virtual std::optional<GradientCall> gradient(const Flags& wanted, const Flags& given,
                                               const torch::jit::Stack& inputs) = 0;
  /// Of all results, by the inputs that are `wanted`; nothing where none is reached.
  virtual std::optional<TangentCall> tangent(const Flags& wanted,
                                             const torch::jit::Stack& inputs) = 0;
  /// An operator with the same results, and behind them what the derivative would compute again
  /// otherwise; nothing where there is no such value.
  virtual std::optional<c10::OperatorHandle> keeping(const torch::jit::Stack& inputs) = 0;
  /// Whether gradients that did not arrive are passed as zeros, and all of them contiguous.
  virtual bool takes_all() const = 0;
};

/// Registers an operator of a text that no user has written, in a namespace, with a derivative of
/// its own, and returns its name, as "tc_grad::f_grad__...". What is registered already is found.
using OperatorMaker = std::function<std::string(const std::string& text, const std::string& ns)>;

/// The derivative is derived from the text.
std::unique_ptr<DerivativeRule> derived_rule(std::shared_ptr<const Definition> definition,
                                             OperatorMaker maker);

/// The derivative is another definition, the operator `backward_name`: it takes the inputs of
/// `forward`, those of its results whose names parameters have, and a gradient for each result. It
/// returns one for each floating-point tensor among the inputs, or for every input.
std::unique_ptr<DerivativeRule> paired_rule(std::shared_ptr<const Definition> forward,
                                            std::shared_ptr<const Definition> backward,
                                            const std::string& backward_name);

/// Whether `backward` takes what a rule of it would pass.
bool is_backward_of(const Definition& forward, const Definition& backward);

}  // namespace tc_torch
