#include "torch/registration.h"

#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "torch/graph_node.h"
#include "torch/schema.h"

namespace tc_torch {
namespace {

/// Reached by backward of an operator that was given no derivative: gradients must not vanish.
struct MissingDerivative : torch::autograd::Node {
  explicit MissingDerivative(std::string operator_name) : name_(std::move(operator_name)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    std::string name = name_.substr(name_.rfind(':') + 1);
    raise(TC_USAGE_ERROR, "the operator ", name_, " has no derivative: call it through ", name,
          " = tensor_comprehensions.make_autograd(T.", name,
          "), which derives one, or takes a backward of yours as its second argument; or call "
          "it under torch.no_grad()");
  }
  std::string name() const override { return "MissingDerivative"; }
  std::string name_;
};

/// What the dispatcher calls with its stack.
template <class Call>
class Boxed : public c10::OperatorKernel {
 public:
  explicit Boxed(Call call) : call_(std::move(call)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    call_(handle, keys, stack);
  }

 private:
  Call call_;
};

/// Profiles show `name`, the definition's, inside of the operator's own.
auto make_kernel(std::shared_ptr<Operator> op, std::string name) {
  return [op = std::move(op), name = std::move(name)](
             const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    RECORD_FUNCTION(name, c10::ArrayRef<const c10::IValue>{});
    size_t count = handle.schema().arguments().size();
    std::vector<at::Tensor> outputs = op->call(torch::jit::last(*stack, count));
    torch::jit::drop(*stack, count);
    for (at::Tensor& output : outputs) stack->emplace_back(std::move(output));
  };
}

auto make_out_kernel(std::shared_ptr<Operator> op, std::string name) {
  return [op = std::move(op), name = std::move(name)](
             const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
    RECORD_FUNCTION(name, c10::ArrayRef<const c10::IValue>{});
    size_t inputs = op->definition().inputs.size();
    size_t count = handle.schema().arguments().size();
    for (size_t i = 0; i < inputs; ++i) {
      c10::IValue& value = torch::jit::peek(*stack, i, count);
      if (value.isTensor() && value.toTensor().is_neg()) value = value.toTensor().resolve_neg();
    }
    auto arguments = torch::jit::last(*stack, count);
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : arguments.slice(inputs)) outputs.push_back(value.toTensor());
    op->call_out(arguments.slice(0, inputs), outputs, false);
    torch::jit::drop(*stack, count);
  };
}

/// Under autocast a definition computes in the types that its text declares: what others made in
/// half precision is converted on the way in.
auto make_autocast_kernel(std::shared_ptr<Operator> op, at::DeviceType device) {
  return [op = std::move(op), device](const c10::OperatorHandle& handle, c10::DispatchKeySet,
                                      torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard below(
        at::autocast::get_autocast_dispatch_key_from_device_type(device));
    const auto& infos = op->definition().inputs;
    size_t count = handle.schema().arguments().size();
    for (size_t i = 0; i < infos.size(); ++i) {
      c10::IValue& value = torch::jit::peek(*stack, i, count);
      if (value.isTensor() && c10::isFloatingType(infos[i].dtype))
        value = at::autocast::cached_cast(infos[i].dtype, value.toTensor(), device);
    }
    handle.callBoxed(*stack);
  };
}

auto make_autograd_kernel(std::string name) {
  return [name = std::move(name)](const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                                  torch::jit::Stack* stack) {
    const auto& schema = handle.schema();
    std::vector<at::Tensor> differentiable;
    for (const c10::IValue& value : torch::jit::last(*stack, schema.arguments().size())) {
      if (!value.isTensor()) continue;
      const at::Tensor& tensor = value.toTensor();
      if (at::GradMode::is_enabled() && tensor.requires_grad()) differentiable.push_back(tensor);
      if (tensor._fw_grad(/*level=*/0).defined())
        raise(TC_USAGE_ERROR, "the operator ", name,
              " has no forward-mode derivative: call it through "
              "tensor_comprehensions.make_autograd, which derives one");
    }
    {
      at::AutoDispatchBelowADInplaceOrView below;
      handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (differentiable.empty()) return;
    auto node = make_node<MissingDerivative>(name);
    node->set_next_edges(torch::autograd::collect_next_edges(differentiable));
    for (const c10::IValue& value : torch::jit::last(*stack, schema.returns().size())) {
      if (!value.isTensor()) continue;
      at::Tensor output = value.toTensor();  // another handle of the same tensor
      if (torch::autograd::isDifferentiableType(output.scalar_type()))
        torch::autograd::set_history(output, node);
    }
  };
}

/// Outputs that the caller gives carry no history; silence would lose gradients.
auto make_out_autograd_kernel(std::string name) {
  return [name = std::move(name)](const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                                  torch::jit::Stack* stack) {
    const auto& arguments = handle.schema().arguments();
    auto values = torch::jit::last(*stack, arguments.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].isTensor()) continue;
      if (values[i].toTensor()._fw_grad(/*level=*/0).defined())
        raise(TC_USAGE_ERROR, name,
              " into given outputs has no forward-mode derivative, but argument ",
              arguments[i].name(),
              " carries a tangent; call it without outputs, through "
              "tensor_comprehensions.make_autograd");
      if (at::GradMode::is_enabled() && values[i].toTensor().requires_grad())
        raise(TC_USAGE_ERROR, name, " into given outputs has no derivative, but argument ",
              arguments[i].name(),
              " requires gradients; call it under torch.no_grad(), or without outputs");
    }
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  };
}

/// Tells autograd that the outputs changed, so that a saved one is not used unnoticed.
void note_written(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  std::vector<at::Tensor> written;
  const auto& arguments = handle.schema().arguments();
  auto values = torch::jit::last(*stack, arguments.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!arguments[i].is_out()) continue;
    written.push_back(values[i].toTensor());
    // What PyTorch says when the change is counted, which is too late.
    if (written.back().is_inference() && !c10::InferenceMode::is_enabled())
      raise(TC_USAGE_ERROR, "output ", arguments[i].name(),
            " was made in inference mode, outside of which such tensors are "
            "not written; call under torch.inference_mode(), or pass a clone");
  }
  {
    at::AutoDispatchBelowADInplaceOrView below;
    handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
  for (const at::Tensor& tensor : written) torch::autograd::impl::bump_version(tensor);
}

struct Libraries {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<torch::Library>> by_name;  // "ns::name" of the operator
};
Libraries& libraries() {
  static auto* all = new Libraries;
  return *all;
}

/// What is registered for an operator, kept under its name.
class Registrations {
 public:
  Registrations(const std::string& ns, const std::string& schema)
      : name_(ns + "::" + schema.substr(0, schema.find('('))),
        library_(std::make_unique<torch::Library>(torch::Library::FRAGMENT, ns, std::nullopt,
                                                  __FILE__, __LINE__)) {}
  ~Registrations() {
    std::lock_guard<std::mutex> lock(libraries().mutex);
    libraries().by_name[name_] = std::move(library_);
  }
  /// Returns the name with its overload.
  std::string define(const std::string& text) {
    c10::FunctionSchema parsed = torch::schema(text.c_str(), c10::AliasAnalysisKind::FROM_SCHEMA);
    std::string name = parsed.name();
    if (!parsed.overload_name().empty()) name += "." + parsed.overload_name();
    library_->def(std::move(parsed), {at::Tag::pt2_compliant_tag});
    return name;
  }
  template <class Call>
  void implement(const std::string& name, c10::DispatchKey key, Call call) {
    add(name, key,
        torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed<Call>>(std::move(call))));
  }
  void add(const std::string& name, c10::DispatchKey key, torch::CppFunction function) {
    library_->impl(name.c_str(), torch::dispatch(key, std::move(function)));
  }
  void implement_autocast(const std::string& name, const std::shared_ptr<Operator>& op) {
    for (at::DeviceType device : {at::kCPU, at::kCUDA})
      implement(name, at::autocast::get_autocast_dispatch_key_from_device_type(device),
                make_autocast_kernel(op, device));
  }

 private:
  std::string name_;
  std::unique_ptr<torch::Library> library_;
};

}  // namespace

void unregister_operator(const std::string& name) {
  decltype(Libraries::by_name)::node_type removed;  // which may run Python when it goes
  std::lock_guard<std::mutex> lock(libraries().mutex);
  removed = libraries().by_name.extract(name);
}

Differentiable* register_differentiable(const std::string& ns, const std::string& name,
                                        const std::shared_ptr<Operator>& op, const std::string& of,
                                        std::unique_ptr<DerivativeRule> rule, bool may_keep) {
  const std::string schema = Schema(op->definition(), name).functional;
  auto differentiable = std::make_unique<Differentiable>(op, of, std::move(rule));
  differentiable->may_keep = may_keep;
  Differentiable* kept = keep_differentiable(ns + "::" + name, std::move(differentiable));
  if (!kept) return find_differentiable(ns + "::" + name);
  Registrations registrations(ns, schema);  // which take the place of others of the name
  registrations.define(schema);
  kept->own = c10::Dispatcher::singleton().findSchemaOrThrow((ns + "::" + name).c_str(), "");
  using c10::DispatchKey;
  registrations.implement(name, DispatchKey::Autograd,
                          [kept](const c10::OperatorHandle&, c10::DispatchKeySet,
                                 torch::jit::Stack* stack) { kept->call(stack); });
  // Below autograd it is the operator without a derivative, which graphs that are lowered hold,
  // whatever they were made of.
  registrations.implement(
      name, DispatchKey::CompositeExplicitAutograd,
      [forward = kept->handle()](const c10::OperatorHandle&, c10::DispatchKeySet,
                                 torch::jit::Stack* stack) { forward.callBoxed(stack); });
  registrations.implement_autocast(name, op);
  return kept;
}

void register_operator(const std::string& ns, const std::string& schema,
                       const std::string& out_schema, std::shared_ptr<Operator> op) {
  Registrations registrations(ns, schema);
  using c10::DispatchKey;
  // In messages and profiles; the operator's own name may hold more than the definition's.
  std::string shown = ns + "::" + op->definition().name;
  std::string functional = registrations.define(schema), out = registrations.define(out_schema);
  // Sparse tensors are sent here too, to be refused in terms of the definition.
  for (DispatchKey key :
       {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::SparseCPU, DispatchKey::SparseCUDA,
        DispatchKey::SparseCsrCPU, DispatchKey::SparseCsrCUDA, DispatchKey::MkldnnCPU}) {
    registrations.implement(functional, key, make_kernel(op, shown));
    registrations.implement(out, key, make_out_kernel(op, shown));
  }
  registrations.implement_autocast(functional, op);
  registrations.implement_autocast(out, op);
  const auto& inputs = op->definition().inputs;
  // Without a tensor to tell the device, dispatch begins at BackendSelect; the result is a CPU's.
  if (std::ranges::all_of(inputs, &ArgumentInfo::scalar))
    registrations.implement(functional, DispatchKey::BackendSelect, make_kernel(op, shown));
  // PyTorch's own handling of lazy negation and conjugation takes it that operators which write
  // return what they wrote, and reads beyond the stack otherwise. make_out_kernel sees to both.
  for (DispatchKey key : {DispatchKey::Negative, DispatchKey::Conjugate})
    registrations.add(out, key, torch::CppFunction::makeFallthrough());
  registrations.implement(functional, DispatchKey::Autograd, make_autograd_kernel(shown));
  registrations.implement(out, DispatchKey::Autograd, make_out_autograd_kernel(shown));
  registrations.implement(out, DispatchKey::ADInplaceOrView, note_written);
}

}  // namespace tc_torch
