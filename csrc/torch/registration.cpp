#include "torch/registration.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace tc_torch {
namespace {

/// Reached by backward of an operator that was given no derivative: gradients must not vanish.
struct MissingDerivative : torch::autograd::Node {
  explicit MissingDerivative(std::string operator_name) : name_(std::move(operator_name)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    std::string name = name_.substr(name_.rfind(':') + 1);
    raise(TC_USAGE_ERROR,
          "the operator " + name_ + " has no derivative: call it through " + name +
              " = tensor_comprehensions.make_autograd(T." + name +
              "), which derives one, or takes a backward of yours as its second argument; or call "
              "it under torch.no_grad()");
  }
  std::string name() const override { return "MissingDerivative"; }
  std::string name_;
};

class Kernel : public c10::OperatorKernel {
 public:
  /// Profiles show `name`, the definition's, inside of the operator's own.
  Kernel(std::shared_ptr<Operator> op, std::string name)
      : operator_(std::move(op)), name_(std::move(name)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    RECORD_FUNCTION(name_, c10::ArrayRef<const c10::IValue>{});
    size_t count = handle.schema().arguments().size();
    std::vector<at::Tensor> outputs = operator_->call(torch::jit::last(*stack, count));
    torch::jit::drop(*stack, count);
    for (at::Tensor& output : outputs) stack->emplace_back(std::move(output));
  }

 private:
  std::shared_ptr<Operator> operator_;
  std::string name_;
};

class OutKernel : public c10::OperatorKernel {
 public:
  OutKernel(std::shared_ptr<Operator> op, std::string name)
      : operator_(std::move(op)), name_(std::move(name)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    RECORD_FUNCTION(name_, c10::ArrayRef<const c10::IValue>{});
    size_t inputs = operator_->definition().inputs.size();
    size_t count = handle.schema().arguments().size();
    for (size_t i = 0; i < inputs; ++i) {
      c10::IValue& value = torch::jit::peek(*stack, i, count);
      if (value.isTensor() && value.toTensor().is_neg()) value = value.toTensor().resolve_neg();
    }
    auto arguments = torch::jit::last(*stack, count);
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : arguments.slice(inputs)) outputs.push_back(value.toTensor());
    operator_->call_out(arguments.slice(0, inputs), outputs, false);
    torch::jit::drop(*stack, count);
  }

 private:
  std::shared_ptr<Operator> operator_;
  std::string name_;
};

/// Under autocast a definition computes in the types that its text declares: what others made in
/// half precision is converted on the way in.
class AutocastKernel : public c10::OperatorKernel {
 public:
  AutocastKernel(std::shared_ptr<Operator> op, at::DeviceType device)
      : operator_(std::move(op)), device_(device) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard below(
        at::autocast::get_autocast_dispatch_key_from_device_type(device_));
    const auto& infos = operator_->definition().inputs;
    size_t count = handle.schema().arguments().size();
    for (size_t i = 0; i < infos.size(); ++i) {
      c10::IValue& value = torch::jit::peek(*stack, i, count);
      if (value.isTensor() && c10::isFloatingType(infos[i].dtype))
        value = at::autocast::cached_cast(infos[i].dtype, value.toTensor(), device_);
    }
    handle.callBoxed(*stack);
  }

 private:
  std::shared_ptr<Operator> operator_;
  at::DeviceType device_;
};

class AutogradKernel : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(std::string name) : name_(std::move(name)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const auto& schema = handle.schema();
    std::vector<at::Tensor> differentiable;
    for (const c10::IValue& value : torch::jit::last(*stack, schema.arguments().size())) {
      if (!value.isTensor()) continue;
      const at::Tensor& tensor = value.toTensor();
      if (at::GradMode::is_enabled() && tensor.requires_grad()) differentiable.push_back(tensor);
      if (tensor._fw_grad(/*level=*/0).defined())
        raise(TC_USAGE_ERROR, "the operator " + name_ +
                                  " has no forward-mode derivative: call it through "
                                  "tensor_comprehensions.make_autograd, which derives one");
    }
    {
      at::AutoDispatchBelowADInplaceOrView below;
      handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (differentiable.empty()) return;
    auto node = c10::make_intrusive<MissingDerivative>(name_);
    node->set_next_edges(torch::autograd::collect_next_edges(differentiable));
    for (const c10::IValue& value : torch::jit::last(*stack, schema.returns().size())) {
      if (!value.isTensor()) continue;
      at::Tensor output = value.toTensor();  // another handle of the same tensor
      if (torch::autograd::isDifferentiableType(output.scalar_type()))
        torch::autograd::set_history(output, node);
    }
  }

 private:
  std::string name_;
};

/// Calls of an operator that differentiates itself, where autograd is asked.
class DifferentiableKernel : public c10::OperatorKernel {
 public:
  explicit DifferentiableKernel(Differentiable* differentiable) : differentiable_(differentiable) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    differentiable_->call(stack);
  }

 private:
  Differentiable* differentiable_;
};

/// And where it is not: below autograd it is the operator without a derivative, which graphs that
/// are lowered hold, whatever they were made of.
class ForwardKernel : public c10::OperatorKernel {
 public:
  explicit ForwardKernel(const c10::OperatorHandle& handle) : handle_(handle) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    handle_.callBoxed(stack);
  }

 private:
  c10::OperatorHandle handle_;
};

/// Outputs that the caller gives carry no history; silence would lose gradients.
class OutAutogradKernel : public c10::OperatorKernel {
 public:
  explicit OutAutogradKernel(std::string name) : name_(std::move(name)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const auto& arguments = handle.schema().arguments();
    auto values = torch::jit::last(*stack, arguments.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].isTensor()) continue;
      if (values[i].toTensor()._fw_grad(/*level=*/0).defined())
        raise(TC_USAGE_ERROR, name_ +
                                  " into given outputs has no forward-mode derivative, but "
                                  "argument " +
                                  arguments[i].name() +
                                  " carries a tangent; call it without outputs, through "
                                  "tensor_comprehensions.make_autograd");
      if (at::GradMode::is_enabled() && values[i].toTensor().requires_grad())
        raise(TC_USAGE_ERROR, name_ +
                                  " into given outputs has no "
                                  "derivative, but argument " +
                                  arguments[i].name() +
                                  " requires gradients; call it under torch.no_grad(), or without "
                                  "outputs");
    }
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

 private:
  std::string name_;
};

/// Tells autograd that the outputs changed, so that a saved one is not used unnoticed.
class OutVersionKernel : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    std::vector<at::Tensor> written;
    const auto& arguments = handle.schema().arguments();
    auto values = torch::jit::last(*stack, arguments.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (arguments[i].is_out()) written.push_back(values[i].toTensor());
    {
      at::AutoDispatchBelowADInplaceOrView below;
      handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    }
    for (const at::Tensor& tensor : written) torch::autograd::impl::bump_version(tensor);
  }
};

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
  template <class KernelType>
  void implement(const std::string& name, c10::DispatchKey key,
                 std::unique_ptr<KernelType> kernel) {
    add(name, key, torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
  void add(const std::string& name, c10::DispatchKey key, torch::CppFunction function) {
    library_->impl(name.c_str(), torch::dispatch(key, std::move(function)));
  }
  void implement_autocast(const std::string& name, const std::shared_ptr<Operator>& op) {
    for (at::DeviceType device : {at::kCPU, at::kCUDA})
      implement(name, at::autocast::get_autocast_dispatch_key_from_device_type(device),
                std::make_unique<AutocastKernel>(op, device));
  }

 private:
  std::string name_;
  std::unique_ptr<torch::Library> library_;
};

}  // namespace

void unregister_operator(const std::string& name) {
  std::unique_ptr<torch::Library> library;  // which may run Python when it goes
  std::lock_guard<std::mutex> lock(libraries().mutex);
  auto found = libraries().by_name.find(name);
  if (found == libraries().by_name.end()) return;
  library = std::move(found->second);
  libraries().by_name.erase(found);
}

void register_differentiable(const std::string& ns, const std::string& schema,
                             std::unique_ptr<Differentiable> differentiable) {
  Registrations registrations(ns, schema);
  std::string name = schema.substr(0, schema.find('('));
  Differentiable* kept = keep_differentiable(ns + "::" + name, std::move(differentiable));
  if (!kept) return;
  registrations.define(schema);
  kept->own = c10::Dispatcher::singleton().findSchemaOrThrow((ns + "::" + name).c_str(), "");
  using c10::DispatchKey;
  registrations.implement(name, DispatchKey::Autograd,
                          std::make_unique<DifferentiableKernel>(kept));
  registrations.implement(name, DispatchKey::CompositeExplicitAutograd,
                          std::make_unique<ForwardKernel>(kept->handle()));
  registrations.implement_autocast(name, kept->forward());
}

void register_operator(const std::string& ns, const std::string& schema,
                       const std::string& out_schema, std::shared_ptr<Operator> op) {
  Registrations registrations(ns, schema);
  auto implement = [&](const std::string& name, c10::DispatchKey key, auto kernel) {
    registrations.implement(name, key, std::move(kernel));
  };
  using c10::DispatchKey;
  // In messages and profiles; the operator's own name may hold more than the definition's.
  std::string shown = ns + "::" + op->definition().name;
  std::string functional = registrations.define(schema), out = registrations.define(out_schema);
  // Sparse tensors are sent here too, to be refused in terms of the definition.
  for (DispatchKey key :
       {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::SparseCPU, DispatchKey::SparseCUDA,
        DispatchKey::SparseCsrCPU, DispatchKey::SparseCsrCUDA, DispatchKey::MkldnnCPU}) {
    implement(functional, key, std::make_unique<Kernel>(op, shown));
    implement(out, key, std::make_unique<OutKernel>(op, shown));
  }
  registrations.implement_autocast(functional, op);
  registrations.implement_autocast(out, op);
  const auto& inputs = op->definition().inputs;
  bool takes_tensors = std::any_of(inputs.begin(), inputs.end(),
                                   [](const ArgumentInfo& info) { return !info.scalar; });
  // Without a tensor to tell the device, dispatch begins at BackendSelect; the result is a CPU's.
  if (!takes_tensors)
    implement(functional, DispatchKey::BackendSelect, std::make_unique<Kernel>(op, shown));
  // PyTorch's own handling of lazy negation and conjugation takes it that operators which write
  // return what they wrote, and reads beyond the stack otherwise. OutKernel sees to both.
  for (DispatchKey key : {DispatchKey::Negative, DispatchKey::Conjugate})
    registrations.add(out, key, torch::CppFunction::makeFallthrough());
  implement(functional, DispatchKey::Autograd, std::make_unique<AutogradKernel>(shown));
  implement(out, DispatchKey::Autograd, std::make_unique<OutAutogradKernel>(shown));
  implement(out, DispatchKey::ADInplaceOrView, std::make_unique<OutVersionKernel>());
}

}  // namespace tc_torch
