#include "torch/differentiable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "torch/graph_node.h"

namespace tc_torch {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

struct Differentiable::Plan {
  Flags wanted;  ///< of each input
  Needs needs;
  /// The name of the operator and `wanted`, by which another graph finds the plan again.
  c10::IValue name;
  /// By which results have gradients. Guarded by the Differentiable's mutex.
  mutable std::map<Flags, std::optional<GradientCall>> gradients;
};

namespace {

/// What a graph of compiled autograd calls in the place of a node: it has what the node saved.
struct Recorded {
  static constexpr bool is_traceable = false;
  static variable_list backward(AutogradContext* context, const variable_list& gradients);
};

/// A recorded call. It is no torch::autograd::Function, which refuses torch.func, but its node.
struct RecordedNode : torch::autograd::CppNode<Recorded> {
  variable_list apply(variable_list&& gradients) override;
  std::shared_ptr<Differentiable> owner;
  const Differentiable::Plan* plan = nullptr;
  bool fills = false;  ///< whether gradients that did not arrive are zeros
};

/// Where what finds the plan again is kept.
constexpr char kPlan[] = "plan";

/// Where the scalar, or the sizes of a tensor that is not read, is kept.
std::string place_of(size_t input) { return std::to_string(input); }

/// Whether the sizes of a tensor are all that a derivative could want of it beside its values: not
/// of subclasses, as fake ones and DTensors, and not of those that torch.func has wrapped.
bool is_ordinary(const at::Tensor& tensor) {
  using c10::DispatchKey;
  static constexpr c10::DispatchKeySet others(
      {DispatchKey::Python, DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchBatched,
       DispatchKey::Functionalize, DispatchKey::NestedTensor});
  return !tensor.unsafeGetTensorImpl()->key_set().has_any(others);
}

bool is_in_graph(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

/// What has no dimensions is a tensor of one element to a derivative, for every example of a batch.
at::Tensor with_dimensions(const at::Tensor& tensor, int64_t rank = 1) {
  return tensor.dim() + 1 == rank ? tensor.unsqueeze(-1) : tensor;
}

/// The gradient of an input: of an input that all examples of a batch share, the sum of what they
/// send, and of one that is theirs, to each what all of them share.
at::Tensor shared_over_batch(const at::Tensor& gradient, const at::Tensor& input) {
  if (gradient.dim() == input.dim() + 1) return gradient.sum(0);
  if (gradient.dim() + 1 == input.dim()) return gradient.expand_symint(input.sym_sizes());
  return gradient;
}

/// With every element in a place of its own and none in between, in any order of the dimensions, as
/// the gradient of what was transposed afterwards: sum().backward() sends gradients of stride 0,
/// and parts of a tensor send what lies apart, for each of which one more kernel would be compiled.
at::Tensor dense(const at::Tensor& gradient) {
  return gradient.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false()
             ? gradient
             : gradient.contiguous();
}

struct Known {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Differentiable>> by_name;
};

Known& known = *new Known;

std::shared_ptr<Differentiable> find_shared(const std::string& name) {
  std::lock_guard<std::mutex> lock(known.mutex);
  auto found = known.by_name.find(name);
  return found == known.by_name.end() ? nullptr : found->second;
}

c10::IValue name_plan(const c10::OperatorHandle& own, const Flags& wanted) {
  std::string name = toString(own.operator_name()) + " ";
  for (bool each : wanted) name += each ? '1' : '0';
  return name;
}

/// Gradients for the edges of a recorded call's node, from what it saved. Without a plan, that of
/// these arguments is looked for.
variable_list pull_to_edges(const AutogradContext& context, const variable_list& saved,
                            const variable_list& gradients, Differentiable& owner,
                            const Flags& wanted, const Differentiable::Plan* plan) {
  at::Device device = at::kCPU;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) device = gradient.device();
  const auto& infos = owner.definition().inputs;
  Stack inputs;
  inputs.reserve(infos.size() + saved.size() + gradients.size());
  size_t next = 0;
  for (size_t k = 0; k < infos.size(); ++k) {
    auto kept = context.saved_data.find(place_of(k));
    if (kept == context.saved_data.end()) {
      inputs.emplace_back(saved[next++]);
    } else if (infos[k].scalar) {
      inputs.push_back(kept->second);
    } else {  // of any values
      inputs.emplace_back(at::empty({}, at::dtype(infos[k].dtype).device(device))
                              .expand(kept->second.toIntVector()));
    }
  }
  if (!plan) plan = &owner.find_plan(wanted, inputs);
  variable_list values =
      owner.pull_back(*plan, std::move(inputs), at::ArrayRef(saved).slice(next), gradients);
  variable_list found;
  for (size_t k = 0; k < infos.size(); ++k)
    if (!infos[k].scalar) found.push_back(std::move(values[k]));
  return found;
}

variable_list Recorded::backward(AutogradContext* context, const variable_list& gradients) {
  const std::string& name = context->saved_data.at(kPlan).toStringRef();
  const size_t space = name.find(' ');
  const std::shared_ptr<Differentiable> owner = find_shared(name.substr(0, space));
  TORCH_CHECK(owner, "the derivative of ", name.substr(0, space), " was unregistered");
  Flags wanted;
  for (char each : name.substr(space + 1)) wanted.push_back(each == '1');
  return pull_to_edges(*context, context->get_saved_variables(), gradients, *owner, wanted,
                       /*plan=*/nullptr);
}

variable_list RecordedNode::apply(variable_list&& gradients) {
  variable_list saved;
  {
    std::lock_guard<std::mutex> lock(mutex_);  // another thread may be done with them
    saved = ctx_.get_saved_variables();
  }
  const auto given = std::ranges::find_if(gradients, &at::Tensor::defined);
  for (size_t r = 0; fills && r < gradients.size(); ++r) {
    if (gradients[r].defined() || !owner->takes_gradient(r)) continue;
    const auto& made = input_metadata(r);
    // Of the kind that the others are, which may be fake, batched or distributed.
    gradients[r] = given == gradients.end()
                       ? made.zeros_like()
                       : given->new_zeros_symint(made.shape_as_dim_vector(), made.options());
  }
  return pull_to_edges(ctx_, saved, gradients, *owner, plan->wanted, plan);
}

}  // namespace

Differentiable* find_differentiable(const std::string& name) { return find_shared(name).get(); }

Differentiable* keep_differentiable(const std::string& name,
                                    std::unique_ptr<Differentiable> differentiable) {
  std::lock_guard<std::mutex> lock(known.mutex);
  auto [entry, is_new] = known.by_name.emplace(name, std::move(differentiable));
  if (!is_new) return nullptr;
  entry->second->kept = entry->second;
  return entry->second.get();
}

bool is_recorded(const std::string& name) {
  std::lock_guard<std::mutex> lock(known.mutex);
  auto found = known.by_name.find(name);
  return found != known.by_name.end() && found->second.use_count() > 1;
}

void drop_differentiable(const std::string& name) {
  decltype(Known::by_name)::node_type dropped;  // which may run Python when it goes
  std::lock_guard<std::mutex> lock(known.mutex);
  dropped = known.by_name.extract(name);
}

Differentiable::Differentiable(std::shared_ptr<Operator> op, const std::string& name,
                               std::unique_ptr<DerivativeRule> rule)
    : seen(op->definition().outputs.size()),
      operator_(std::move(op)),
      handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "")),
      rule_(std::move(rule)) {}

Differentiable::~Differentiable() = default;

void Differentiable::compute(Stack* stack) const {
  at::AutoDispatchBelowADInplaceOrView below;
  // Transforms of torch.func are nested: below autograd, the next one differentiates again.
  const bool nested =
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
  (nested && own ? *own : handle_).callBoxed(stack);
}

void Differentiable::call(Stack* stack) {
  size_t count = handle_.schema().arguments().size();
  bool records = false, moves = false;
  for (const c10::IValue& value : torch::jit::last(*stack, count)) {
    if (!value.isTensor()) continue;
    records = records || value.toTensor().requires_grad();
    moves = moves || has_tangent(value.toTensor());
  }
  records = records && at::GradMode::is_enabled();
  if (!records && !moves) return compute(stack);
  size_t base = stack->size() - count, returns = definition().outputs.size();
  const Stack inputs(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
  if (records && !moves && may_keep) {
    if (const auto& keeping = find_keeping(inputs)) {
      keeping->callBoxed(stack);
      stack->resize(base + returns);
      return;
    }
  }
  if (records) return record(stack, inputs, moves);
  compute(stack);
  push_forward(inputs, torch::jit::last(*stack, returns));
}

void Differentiable::record(Stack* stack, const Stack& inputs, bool moves) {
  const auto& infos = definition().inputs;
  variable_list tensors, saved;
  Flags wanted;
  bool in_graph = false;
  for (size_t k = 0; k < infos.size(); ++k) {
    const c10::IValue& value = inputs[k];
    wanted.push_back(value.isTensor() && value.toTensor().requires_grad());
    if (value.isTensor()) tensors.push_back(value.toTensor());
    in_graph = in_graph || (value.isTensor() && is_in_graph(value.toTensor()));
  }
  const Plan& plan = find_plan(wanted, inputs);
  bool fills = rule_->takes_all();
  // Distributed tensors are Python's as well, and a graph of them is made where a mode runs.
  if (in_graph && !fills)
    fills = !prepare(plan, inputs) && c10::impl::TorchDispatchModeTLS::any_modes_set();
  compute(stack);

  auto node = make_node<RecordedNode>();
  node->set_ctx_grad_fn(node);
  node->set_next_edges(torch::autograd::collect_next_edges(tensors));
  node->is_variable_input_.assign(tensors.size(), true);
  AutogradContext& context = node->ctx_;
  context.set_materialize_grads(rule_->takes_all());
  context.saved_data[kPlan] = plan.name;
  node->owner = kept.lock();
  node->plan = &plan;
  node->fills = fills;
  const auto outputs = torch::jit::last(*stack, definition().outputs.size());
  variable_list results;
  for (const c10::IValue& value : outputs) {
    const at::Tensor& result = results.emplace_back(value.toTensor());
    uint32_t number = node->add_input_metadata(result);
    if (torch::autograd::isDifferentiableType(result.scalar_type()))
      torch::autograd::impl::set_gradient_edge(result, {node, number});
    if (rule_->takes_all()) node->output_info_.emplace_back(result);
  }
  // Results are saved with the tangents that they have then.
  if (moves) push_forward(inputs, outputs);
  for (size_t k = 0; k < infos.size(); ++k) {
    if (infos[k].scalar)
      context.saved_data[place_of(k)] = inputs[k];
    else if (plan.needs.read[k] || !is_ordinary(inputs[k].toTensor()))
      saved.push_back(inputs[k].toTensor());
    else
      context.saved_data[place_of(k)] = inputs[k].toTensor().sizes();
  }
  for (int64_t k : plan.needs.results) saved.push_back(results[k]);
  context.save_for_backward(std::move(saved));
  node->save_variables_to_ctx();
}

std::vector<at::Tensor> Differentiable::pull_back(const Plan& plan, Stack inputs,
                                                  at::ArrayRef<at::Tensor> results,
                                                  const std::vector<at::Tensor>& gradients) {
  const auto& outputs = definition().outputs;
  size_t count = inputs.size();
  Flags given;
  for (size_t r = 0; r < gradients.size(); ++r)
    given.push_back(rule_->takes_all() ||
                    (gradients[r].defined() && c10::isFloatingType(outputs[r].dtype)));
  const std::optional<GradientCall>& call = find_gradient(plan, given, inputs);
  std::vector<at::Tensor> values(count);
  if (!call) return values;
  const Stack given_inputs = rule_->takes_all() ? inputs : Stack();
  auto rank = call->ranks.begin();
  for (int64_t k : call->saved) inputs.emplace_back(with_dimensions(results[k], *rank++));
  for (size_t r = 0; r < gradients.size(); ++r)
    if (given[r])
      inputs.emplace_back(with_dimensions(
          rule_->takes_all() ? gradients[r].contiguous() : dense(gradients[r]), *rank++));
  call->handle.callBoxed(&inputs);
  for (size_t k = 0; k < count; ++k) {
    if (call->places[k] < 0) continue;
    values[k] = inputs[call->places[k]].toTensor();
    if (rule_->takes_all()) values[k] = shared_over_batch(values[k], given_inputs[k].toTensor());
  }
  return values;
}

void Differentiable::push_forward(const Stack& inputs, at::ArrayRef<c10::IValue> results) {
  Flags wanted;
  for (size_t k = 0; k < definition().inputs.size(); ++k)
    wanted.push_back(inputs[k].isTensor() && has_tangent(inputs[k].toTensor()));
  const std::optional<TangentCall>& call = find_tangent(wanted, inputs);
  if (!call) return;  // results that no tangent reaches stand still
  Stack stack;
  for (size_t k = 0; k < inputs.size(); ++k)
    stack.push_back(wanted[k] ? c10::IValue(inputs[k].toTensor()._fw_primal(/*level=*/0))
                              : inputs[k]);
  for (int64_t k : call->saved) stack.emplace_back(with_dimensions(results[k].toTensor()));
  for (int64_t k : call->sized) stack.emplace_back(with_dimensions(results[k].toTensor().detach()));
  for (int64_t k : call->moved) stack.emplace_back(inputs[k].toTensor()._fw_grad(/*level=*/0));
  call->handle.callBoxed(&stack);
  for (size_t k = 0; k < call->sized.size(); ++k) {
    if (call->places[k] < 0) continue;
    const at::Tensor& result = results[call->sized[k]].toTensor();
    at::Tensor tangent = stack[call->places[k]].toTensor();
    if (result.dim() == 0) tangent = tangent.reshape({});
    result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  }
}

// ---- what is known of derivatives

Differentiable::Key Differentiable::key_of(const Flags& wanted, const Stack& inputs) const {
  const auto& infos = definition().inputs;
  Key key;
  key.reserve(infos.size());
  for (size_t k = 0; k < infos.size(); ++k)
    key.push_back(infos[k].specialized ? inputs[k].toScalar().to<int64_t>() : wanted[k]);
  return key;
}

const Differentiable::Plan& Differentiable::find_plan(const Flags& wanted, const Stack& inputs) {
  return *find_or_make(mutex_, plans_, key_of(wanted, inputs), [&] {
    auto plan = std::make_unique<Plan>();
    plan->wanted = wanted;
    plan->needs = rule_->needs(wanted, inputs);
    plan->name = name_plan(*own, wanted);
    return plan;
  });
}

const std::optional<GradientCall>& Differentiable::find_gradient(const Plan& plan,
                                                                 const Flags& given,
                                                                 const Stack& inputs) {
  return find_or_make(mutex_, plan.gradients, given,
                      [&] { return rule_->gradient(plan.wanted, given, inputs); });
}

const std::optional<TangentCall>& Differentiable::find_tangent(const Flags& wanted,
                                                               const Stack& inputs) {
  return find_or_make(mutex_, tangents_, key_of(wanted, inputs),
                      [&] { return rule_->tangent(wanted, inputs); });
}

const std::optional<c10::OperatorHandle>& Differentiable::find_keeping(const Stack& inputs) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (keeping_) return *keeping_;
  }
  std::optional<c10::OperatorHandle> added = rule_->keeping(inputs);
  if (added)
    if (Differentiable* kept = find_differentiable(toString(added->operator_name())))
      kept->seen = definition().outputs.size();
  std::lock_guard<std::mutex> lock(mutex_);
  if (!keeping_) keeping_ = std::move(added);
  return *keeping_;
}

bool Differentiable::takes_gradient(size_t result) const {
  return rule_->takes_all() ||
         (result < seen && c10::isFloatingType(definition().outputs[result].dtype));
}

/// Where a graph is made, all derivatives are asked for that its backward may call. Another process
/// may take the graph from a cache: it sees this call, and neither makes the graph nor asks again.
/// Returns whether there is one by every set of results, or only that by all of them.
bool Differentiable::prepare(const Plan& plan, const Stack& inputs) {
  // Results, for every set of which there is a derivative: each takes time to write, of which no
  // model of the processor knows.
  constexpr size_t kMost = 3;
  Flags all;
  std::vector<size_t> floating;
  for (size_t r = 0; r < definition().outputs.size(); ++r) {
    all.push_back(takes_gradient(r));
    if (all.back()) floating.push_back(r);
  }
  if (floating.size() > kMost) {
    find_gradient(plan, all, inputs);
    return false;
  }
  for (size_t set = 1; set < size_t{1} << floating.size(); ++set) {
    Flags given(all.size(), false);
    for (size_t k = 0; k < floating.size(); ++k) given[floating[k]] = (set >> k) & 1;
    find_gradient(plan, given, inputs);
  }
  return true;
}

}  // namespace tc_torch
