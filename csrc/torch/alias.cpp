#include "torch/alias.h"

#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "torch/schema.h"

namespace tc_torch {
namespace {

bool fits(const c10::IValue& value, const c10::Argument& argument) {
  switch (argument.type()->kind()) {
    case c10::TypeKind::TensorType: return value.isTensor();
    case c10::TypeKind::FloatType: return value.isDouble() || value.isSymFloat();
    case c10::TypeKind::IntType: return value.isInt() || value.isSymInt();
    case c10::TypeKind::BoolType: return value.isBool();
    default: return false;
  }
}

/// Hands a call on, through all that the dispatcher does for an operator.
class Forward : public c10::OperatorKernel {
 public:
  explicit Forward(c10::OperatorHandle target) : target_(std::move(target)) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    // A caller that looked the name up before it moved passes what the former operator took.
    const auto& arguments = target_.schema().arguments();
    bool good = stack->size() >= arguments.size();
    for (size_t k = 0; good && k < arguments.size(); ++k)
      good = fits(torch::jit::peek(*stack, k, arguments.size()), arguments[k]);
    if (!good)
      raise(TC_USAGE_ERROR, handle.operator_name().name,
            " is another definition than when this call was compiled, with other parameters: ",
            handle.schema(),
            "; compile the caller again, or define the former text under another namespace");
    target_.callBoxed(stack);
  }

 private:
  c10::OperatorHandle target_;
};

/// What a plain name is now.
struct Alias {
  std::string contents;
  std::unique_ptr<torch::Library> library;
  /// What keeps the dispatcher's entries of the name, which handles point into, when it moves.
  std::unique_ptr<torch::Library> entries;
};

struct Aliases {
  std::mutex mutex;
  std::map<std::string, Alias> by_name;  // ns::name
  /// What names were before they moved, which PyTorch's compiled scripts have noted.
  std::vector<std::shared_ptr<torch::jit::Operator>> operators;
};

Aliases& aliases() {
  static auto* all = new Aliases;
  return *all;
}

std::unique_ptr<torch::Library> fragment(const std::string& ns) {
  return std::make_unique<torch::Library>(torch::Library::FRAGMENT, ns, std::nullopt, __FILE__,
                                          __LINE__);
}

}  // namespace

std::string owner_of(const std::string& ns, const std::string& name) {
  std::lock_guard<std::mutex> lock(aliases().mutex);
  auto found = aliases().by_name.find(ns + "::" + name);
  return found == aliases().by_name.end() ? "" : found->second.contents;
}

void set_owner(const std::string& ns, const std::string& name, const Definition& definition,
               const std::string& contents) {
  const Schema schema(definition, name);
  const std::pair<std::string, std::string> overloads[] = {{"", schema.functional},
                                                           {"out", schema.out}};
  auto full_name = [&](const std::string& overload) {
    return overload.empty() ? name : name + "." + overload;
  };
  std::lock_guard<std::mutex> lock(aliases().mutex);
  Alias& alias = aliases().by_name[ns + "::" + name];
  if (alias.contents == contents) return;
  if (!alias.library) {
    // An entry of the dispatcher goes with the last registration for it. No tensor has this key.
    auto entry = fragment(ns);
    for (const auto& [overload, text] : overloads)
      entry->impl(full_name(overload).c_str(),
                  torch::dispatch(c10::DispatchKey::TESTING_ONLY_GenericWrapper,
                                  torch::CppFunction::makeFallthrough()));
    alias.entries = std::move(entry);
  } else {
    for (const auto& op :
         torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(ns + "::" + name)))
      aliases().operators.push_back(op);
    alias.library.reset();
  }
  alias.library = fragment(ns);
  for (const auto& [overload, text] : overloads) {
    alias.library->def(torch::schema(text.c_str(), c10::AliasAnalysisKind::FROM_SCHEMA),
                       {at::Tag::pt2_compliant_tag});
    auto target = c10::Dispatcher::singleton().findSchemaOrThrow((ns + "::" + contents).c_str(),
                                                                 overload.c_str());
    auto implement = [&](c10::DispatchKey key, torch::CppFunction function) {
      alias.library->impl(full_name(overload).c_str(), torch::dispatch(key, std::move(function)));
    };
    implement(c10::DispatchKey::CompositeImplicitAutograd,
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Forward>(target)));
    // Seen to by the operator itself (see registration.cpp).
    for (c10::DispatchKey key : {c10::DispatchKey::Negative, c10::DispatchKey::Conjugate})
      implement(key, torch::CppFunction::makeFallthrough());
  }
  alias.contents = contents;
}

void remove_owner(const std::string& ns, const std::string& name) {
  decltype(Aliases::by_name)::node_type removed;
  std::lock_guard<std::mutex> lock(aliases().mutex);
  removed = aliases().by_name.extract(ns + "::" + name);
}

void forget_moves() {
  std::lock_guard<std::mutex> lock(aliases().mutex);
  aliases().operators.clear();
}

}  // namespace tc_torch
