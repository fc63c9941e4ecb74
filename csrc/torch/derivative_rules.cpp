#include "torch/derivative_rules.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "torch/schema.h"

namespace tc_torch {
namespace {

/// Of the inputs, which are the first arguments of a call: 0 for all but specialised scalars.
std::vector<int64_t> specialized_values(const Definition& definition,
                                        const torch::jit::Stack& inputs) {
  std::vector<int64_t> values(definition.inputs.size());
  for (size_t k = 0; k < values.size(); ++k)
    if (definition.inputs[k].specialized) values[k] = inputs.at(k).toScalar().to<int64_t>();
  return values;
}

std::vector<int32_t> to_core(const Flags& flags) { return {flags.begin(), flags.end()}; }

std::shared_ptr<const Definition> parse_one(const std::string& text) {
  ModulePtr module = parse_module(text);
  return std::make_shared<Definition>(module, tc_module_definition(module.get(), 0));
}

/// The place of what has this name; that behind the last where nothing has.
size_t find_name(const std::vector<ArgumentInfo>& infos, const std::string& name) {
  return std::ranges::find(infos, name, &ArgumentInfo::name) - infos.begin();
}

/// The place of the input that a result of a derivative is the gradient of: d_X_1 is that of X_1,
/// or where there is none of X.
size_t input_of(const std::string& result, const Definition& forward) {
  const auto& inputs = forward.inputs;
  const size_t plain = find_name(inputs, result.substr(2));
  return plain < inputs.size() ? plain : find_name(inputs, result.substr(2, result.rfind('_') - 2));
}

/// A derivative as a definition, and what its parameters and results are of the forward one.
struct Gradient {
  std::string text;
  std::shared_ptr<const Definition> definition;
  Flags read;                   ///< of each forward input
  std::vector<int64_t> saved;   ///< the forward results that it reads
  std::vector<int64_t> places;  ///< of every forward input's gradient; -1 where there is none

  Gradient(const Definition& forward, const Flags& given, std::string written)
      : text(std::move(written)), definition(parse_one(text)) {
    size_t inputs = forward.inputs.size();
    auto gradients = static_cast<size_t>(std::count(given.begin(), given.end(), true));
    for (size_t k = 0; k < inputs; ++k) read.push_back(definition->inputs[k].read);
    for (size_t k = inputs; k + gradients < definition->inputs.size(); ++k)
      saved.push_back(static_cast<int64_t>(find_name(forward.outputs, definition->inputs[k].name)));
    places.assign(inputs, -1);
    for (size_t place = 0; place < definition->outputs.size(); ++place)
      places.at(input_of(definition->outputs[place].name, forward)) = static_cast<int64_t>(place);
  }
};

/// Null where no wanted input is reached.
std::shared_ptr<const Gradient> derive(const Definition& forward, const Flags& wanted,
                                       const Flags& given, const torch::jit::Stack& inputs) {
  const InputsWithoutData scalars(forward, specialized_values(forward, inputs));
  const auto* text =
      ask<const char*>(tc_definition_gradient, forward.get(), scalars.data(), scalars.count(),
                       to_core(wanted).data(), to_core(given).data());
  return *text ? std::make_shared<Gradient>(forward, given, text) : nullptr;
}

c10::OperatorHandle find_operator(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

std::vector<int64_t> ranks_behind(const Definition& definition, size_t inputs) {
  std::vector<int64_t> ranks;
  for (size_t k = inputs; k < definition.inputs.size(); ++k)
    ranks.push_back(definition.inputs[k].rank);
  return ranks;
}

class DerivedRule : public DerivativeRule {
 public:
  DerivedRule(std::shared_ptr<const Definition> definition, OperatorMaker maker)
      : definition_(std::move(definition)), maker_(std::move(maker)) {
    for (const ArgumentInfo& output : definition_->outputs)
      differentiable_.push_back(c10::isFloatingType(output.dtype));
  }

  Needs needs(const Flags& wanted, const torch::jit::Stack& inputs) override {
    Needs all{Flags(definition_->inputs.size(), false), {}};
    const auto add = [&](const Flags& given) {
      const std::shared_ptr<const Gradient> part = find(wanted, given, inputs);
      if (!part) return;
      for (size_t k = 0; k < all.read.size(); ++k) all.read[k] = all.read[k] || part->read[k];
      for (int64_t result : part->saved)
        if (std::count(all.results.begin(), all.results.end(), result) == 0)
          all.results.push_back(result);
    };
    add(differentiable_);
    // Of some results alone, a derivative may read others than the whole one does.
    for (size_t r = 0; r < differentiable_.size(); ++r) {
      Flags one(differentiable_.size(), false);
      one[r] = differentiable_[r];
      if (one != differentiable_) add(one);
    }
    return all;
  }

  std::optional<GradientCall> gradient(const Flags& wanted, const Flags& given,
                                       const torch::jit::Stack& inputs) override {
    std::shared_ptr<const Gradient> part = find(wanted, given, inputs);
    if (!part) return std::nullopt;
    // The whole derivative, whose results were saved, may read more of them.
    std::vector<int64_t> needed = needs(wanted, inputs).results, saved;
    for (int64_t result : part->saved) {
      const auto at = std::find(needed.begin(), needed.end(), result);
      TORCH_CHECK(at != needed.end(), "the derivative of ", definition_->name,
                  " reads a result that was not kept");
      saved.push_back(at - needed.begin());
    }
    return GradientCall{make(part->text, "tc_grad"), std::move(saved), part->places,
                        ranks_behind(*part->definition, definition_->inputs.size())};
  }

  /// The derivative is linear in the gradients that it is given: it multiplies them with the
  /// transposed Jacobian, and its own derivative by them multiplies with the Jacobian.
  std::optional<TangentCall> tangent(const Flags& wanted,
                                     const torch::jit::Stack& inputs) override {
    std::shared_ptr<const Gradient> back = find(wanted, differentiable_, inputs);
    if (!back) return std::nullopt;
    size_t count = back->definition->inputs.size();
    size_t gradients = std::count(differentiable_.begin(), differentiable_.end(), true);
    Flags by(count, false);
    std::fill(by.end() - static_cast<std::ptrdiff_t>(gradients), by.end(), true);
    std::shared_ptr<const Gradient> forth =
        derive(*back->definition, by, Flags(back->definition->outputs.size(), true), inputs);
    if (!forth) return std::nullopt;
    TangentCall call{make(forth->text, "tc_grad"), back->saved, {}, {}, {}};
    for (size_t k = 0; k < back->places.size(); ++k)
      if (back->places[k] >= 0) call.moved.push_back(static_cast<int64_t>(k));
    for (size_t r = 0; r < differentiable_.size(); ++r)
      if (differentiable_[r]) call.sized.push_back(static_cast<int64_t>(r));
    call.places.assign(forth->places.end() - static_cast<std::ptrdiff_t>(gradients),
                       forth->places.end());
    return call;
  }

  std::optional<c10::OperatorHandle> keeping(const torch::jit::Stack& inputs) override {
    const InputsWithoutData scalars(*definition_, specialized_values(*definition_, inputs));
    const char* text = nullptr;
    const tc_status status =
        tc_definition_keeping(definition_->get(), scalars.data(), scalars.count(), &text);
    if (status == TC_INTERRUPTED) check(status);
    // The derivative that is asked for says what is wrong.
    if (status != TC_OK || !*text) return std::nullopt;
    return make(text, "tc_keep");
  }

  bool takes_all() const override { return false; }

 private:
  std::shared_ptr<const Gradient> find(const Flags& wanted, const Flags& given,
                                       const torch::jit::Stack& inputs) {
    if (std::find(given.begin(), given.end(), true) == given.end()) return nullptr;
    return find_or_make(mutex_, known_, {wanted, given, specialized_values(*definition_, inputs)},
                        [&] { return derive(*definition_, wanted, given, inputs); });
  }

  c10::OperatorHandle make(const std::string& text, const std::string& ns) const {
    return find_operator(derived_name(maker_(std::string(text), ns)));
  }

  std::shared_ptr<const Definition> definition_;
  OperatorMaker maker_;
  Flags differentiable_;  ///< of each result
  std::mutex mutex_;
  std::map<std::tuple<Flags, Flags, std::vector<int64_t>>, std::shared_ptr<const Gradient>> known_;
};

/// The places of the results of `forward` that `backward` has parameters for, after the inputs.
std::vector<int64_t> saved_results(const Definition& forward, const Definition& backward) {
  std::vector<int64_t> places;
  for (size_t k = forward.inputs.size(); k < backward.inputs.size(); ++k) {
    const size_t place = find_name(forward.outputs, backward.inputs[k].name);
    if (place == forward.outputs.size()) break;
    places.push_back(static_cast<int64_t>(place));
  }
  return places;
}

class PairedRule : public DerivativeRule {
 public:
  PairedRule(std::shared_ptr<const Definition> forward, std::shared_ptr<const Definition> backward,
             const std::string& backward_name)
      : forward_(std::move(forward)),
        backward_(std::move(backward)),
        handle_(find_operator(backward_name)),
        saved_(saved_results(*forward_, *backward_)) {}

  Needs needs(const Flags&, const torch::jit::Stack&) override {
    Needs result{{}, saved_};
    for (size_t k = 0; k < forward_->inputs.size(); ++k)
      result.read.push_back(backward_->inputs[k].read);
    return result;
  }

  std::optional<GradientCall> gradient(const Flags&, const Flags&,
                                       const torch::jit::Stack&) override {
    GradientCall call{handle_, {}, {}, ranks_behind(*backward_, forward_->inputs.size())};
    for (size_t k = 0; k < saved_.size(); ++k) call.saved.push_back(static_cast<int64_t>(k));
    int64_t next = 0;
    bool of_every_input = backward_->outputs.size() == forward_->inputs.size();
    for (const ArgumentInfo& info : forward_->inputs) {
      bool floating = !info.scalar && c10::isFloatingType(info.dtype);
      call.places.push_back(floating ? next : -1);
      next += floating || of_every_input;
    }
    if (static_cast<size_t>(next) != backward_->outputs.size())
      raise(TC_USAGE_ERROR, backward_->name, " returned ", backward_->outputs.size(),
            " gradients, but ", next, " of the ", forward_->inputs.size(),
            " inputs are floating-point tensors; return one for each of those, in order");
    return call;
  }

  std::optional<TangentCall> tangent(const Flags&, const torch::jit::Stack&) override {
    raise(TC_USAGE_ERROR, forward_->name, " with the backward ", backward_->name,
          " has no forward-mode derivative: make_autograd without a backward derives one");
  }

  std::optional<c10::OperatorHandle> keeping(const torch::jit::Stack&) override {
    return std::nullopt;
  }

  bool takes_all() const override { return true; }

 private:
  std::shared_ptr<const Definition> forward_, backward_;
  c10::OperatorHandle handle_;
  std::vector<int64_t> saved_;
};

bool accumulates(const Definition& definition) {
  return std::ranges::any_of(definition.outputs, &ArgumentInfo::accumulates);
}

/// As schemas tell types apart.
bool of_one_kind(const ArgumentInfo& a, const ArgumentInfo& b) {
  if (a.scalar != b.scalar) return false;
  return !a.scalar || (c10::isFloatingType(a.dtype) == c10::isFloatingType(b.dtype) &&
                       (a.dtype == at::kBool) == (b.dtype == at::kBool));
}

}  // namespace

std::unique_ptr<DerivativeRule> derived_rule(std::shared_ptr<const Definition> definition,
                                             OperatorMaker maker) {
  return std::make_unique<DerivedRule>(std::move(definition), std::move(maker));
}

std::unique_ptr<DerivativeRule> paired_rule(std::shared_ptr<const Definition> forward,
                                            std::shared_ptr<const Definition> backward,
                                            const std::string& backward_name) {
  return std::make_unique<PairedRule>(std::move(forward), std::move(backward), backward_name);
}

bool is_backward_of(const Definition& forward, const Definition& backward) {
  size_t inputs = forward.inputs.size();
  size_t behind = saved_results(forward, backward).size() + forward.outputs.size();
  if (accumulates(forward) || accumulates(backward) || backward.inputs.size() != inputs + behind)
    return false;
  for (size_t k = 0; k < backward.inputs.size(); ++k)
    if (k < inputs ? !of_one_kind(forward.inputs[k], backward.inputs[k])
                   : backward.inputs[k].scalar)
      return false;
  return true;
}

}  // namespace tc_torch
