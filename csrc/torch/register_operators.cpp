// The C++ interface to operators of LibTorch: definitions registered without Python.
#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tc/torch.hpp"
#include "torch/alias.h"
#include "torch/derivative_rules.h"
#include "torch/kernel_limit.h"
#include "torch/libraries.h"
#include "torch/operator.h"
#include "torch/registration.h"
#include "torch/schema.h"

namespace tc_torch {
namespace {

/// Taken by whoever registers: what is there may not change between a look and what follows it.
std::mutex& registering() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::shared_ptr<tc_options> parse_options(const std::string& text) {
  tc_options* options = nullptr;
  check(text.empty() ? tc_options_create("default", &options)
                     : tc_options_parse(text.c_str(), &options));
  return {options, tc_options_free};
}

/// An operator of a text that was derived of another one, and its name.
std::string register_made_text(const std::string& text, const std::string& ns);

/// One definition with its options, on its way to the dispatcher.
class Registration {
 public:
  Registration(const ModulePtr& module, int32_t index, std::string ns,
               const std::shared_ptr<tc_options>& options)
      : has_default_options_(tc_options_text(options.get()) ==
                             std::string(tc_options_text(parse_options("").get()))),
        definition_(
            std::make_shared<Definition>(module, tc_module_definition(module.get(), index))),
        ns_(std::move(ns)),
        contents_(name_of_contents(*definition_, tc_options_text(options.get()))),
        operator_(std::make_shared<Operator>(definition_, [options](at::ArrayRef<c10::IValue>) {
          return copy_options(options.get());
        })) {}

  const std::string& contents() const { return contents_; }
  std::string plain_name() const { return mangle(definition_->name, {}, "tc"); }
  std::string owner() const { return owner_of(ns_, plain_name()); }

  /// Empty where the operator has its plain name or may take it; else what is in the way.
  std::string conflict() const {
    if (owner() == contents_ || !is_registered(ns_, plain_name())) return "";
    return "torch.ops." + ns_ + "." + plain_name() +
           (owner().empty() ? " exists already and was not registered here"
                            : " is " + owner() + " already and cannot be " + contents_ +
                                  ", of another text or other options");
  }

  /// Under a name that graphs hold, with the derivative that is derived. What is registered already
  /// stays as it is. Where `keeps`, recorded calls may run a definition with more results.
  void add(const std::string& name, bool keeps) const {
    if (!is_registered(ns_, name)) {
      const Schema schema(*definition_, name);
      register_operator(ns_, schema.functional, schema.out, operator_);
    }
    if (!is_registered(ns_, derived_name(name)))
      register_differentiable(ns_, derived_name(name), operator_, ns_ + "::" + name,
                              derived_rule(definition_, register_made_text),
                              keeps && has_default_options_);
  }
  void add_plain_name() const { set_owner(ns_, plain_name(), *definition_, contents_); }
  /// With another definition as its derivative, under the name that graphs hold.
  void add_pair(const std::string& name, const Registration& backward,
                const std::string& backward_name) const {
    const std::string paired = paired_name(name, backward_name);
    if (is_registered(ns_, paired) || !is_backward_of(*definition_, *backward.definition_)) return;
    register_differentiable(
        ns_, paired, operator_, ns_ + "::" + name,
        paired_rule(definition_, backward.definition_, backward.ns_ + "::" + backward_name));
  }
  const std::string& ns() const { return ns_; }

 private:
  bool has_default_options_;
  std::shared_ptr<Definition> definition_;
  std::string ns_;
  std::string contents_;
  std::shared_ptr<Operator> operator_;
};

std::string register_made_text(const std::string& text, const std::string& ns) {
  std::lock_guard<std::mutex> lock(registering());
  Registration made(parse_module(text), 0, ns, parse_options(""));
  made.add(made.contents(), /*keeps=*/false);
  return ns + "::" + made.contents();
}

}  // namespace
}  // namespace tc_torch

namespace tensor_comprehensions {

using namespace tc_torch;

void register_operators(const std::string& text, const std::string& ns,
                        const std::string& options) {
  std::lock_guard<std::mutex> lock(registering());
  tc_set_libraries(&aten_libraries());
  std::shared_ptr<tc_options> chosen = parse_options(options);
  ModulePtr module = parse_module(text);
  std::vector<Registration> all;
  for (int32_t i = 0; i < tc_module_size(module.get()); ++i) {
    all.emplace_back(module, i, ns, chosen);
    // Who registers a text means to call it by this name.
    std::string conflict = all.back().conflict();
    if (!conflict.empty()) throw std::runtime_error(conflict + "; pass another namespace");
  }
  for (const Registration& each : all) {
    each.add(each.contents(), /*keeps=*/true);
    each.add_plain_name();
  }
}

namespace {

std::vector<std::string> backwards_of(const tc_store* store, int32_t text, int32_t index) {
  std::vector<std::string> names;
  for (int32_t pair = 0; const char* name = tc_store_pair(store, text, index, pair); ++pair)
    names.emplace_back(name);
  return names;
}

}  // namespace

void load_operators(const std::string& path) {
  std::lock_guard<std::mutex> lock(registering());
  tc_set_libraries(&aten_libraries());
  const std::unique_ptr<tc_store, Free<tc_store_free>> kept(
      ask<tc_store*>(tc_store_read, path.c_str(), /*may_be_missing=*/0));
  const tc_store* store = kept.get();
  // All texts are checked before the first is registered, since operators are for ever.
  struct Loaded {
    Registration registration;
    std::string name;
    bool by_user;
    std::vector<std::string> backwards;
  };
  std::vector<Loaded> all;
  for (int32_t k = 0; k < tc_store_size(store); ++k) {
    const auto text = ask<tc_stored_text>(tc_store_text, store, k);
    const ModulePtr module(ask<tc_module*>(tc_store_parse, store, k), tc_module_free);
    for (int32_t i = 0; i < text.definition_count; ++i) {
      const auto found = ask<tc_stored_definition>(tc_store_definition, store, k, i);
      all.push_back({Registration(module, i, text.ns, parse_options(found.options)),
                     found.operator_name, text.by_user != 0, backwards_of(store, k, i)});
    }
  }
  use_tunings(store);
  for (const Loaded& each : all) {
    each.registration.add(each.name, each.by_user);
    // The same, unless another version saved it, whose name graphs hold.
    each.registration.add(each.registration.contents(), each.by_user);
    if (!each.by_user) continue;
    // Graphs hold the other name: they run, whoever has this one.
    std::string conflict = each.registration.conflict();
    if (conflict.empty())
      each.registration.add_plain_name();
    else
      TORCH_WARN(conflict, "; graphs find the one of '", path, "' by its full name");
  }
  for (const Loaded& each : all)
    for (const std::string& backward : each.backwards)
      for (const Loaded& other : all)
        if (other.registration.ns() + "::" + other.name == backward) {
          const Registration& forward = each.registration;
          forward.add_pair(each.name, other.registration, other.name);
          forward.add_pair(forward.contents(), other.registration, other.registration.contents());
        }
}

}  // namespace tensor_comprehensions
