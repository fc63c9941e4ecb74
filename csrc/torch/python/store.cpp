// Stores as objects of Python.
#include <torch/extension.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/errors.h"
#include "torch/kernel_limit.h"
#include "torch/python/parts.h"
#include "torch/python/python_lock.h"
#include "torch/python/python_values.h"
#include "torch/python/trial.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

struct StoredDefinition {
  std::string name, operator_name, options;
  bool derived = false;
  std::optional<std::string> backward;
  std::vector<std::string> pairs;
};

struct StoredText {
  std::string ns, source;
  bool by_user = true;
  std::vector<StoredDefinition> definitions;
};

struct TunedPlan {
  std::string options;
  tc_times times = {}, standard = {};
  std::string processor, version;
  int64_t time = 0;
  const Trial* trial = nullptr;  ///< of a GPU, whose code is kept
};

struct Tuning {
  std::string key, text, arguments, options, target, machine;
  int threads = 1;
  std::vector<TunedPlan> plans;
  std::vector<std::pair<std::string, double>> trials;
  int64_t measured = 0;
};

class Store {
 public:
  Store() : store_(ask<tc_store*>(tc_store_create)) {}
  Store(const std::string& path, bool may_be_missing)
      : store_(ask<tc_store*>(tc_store_read, c_text(path), may_be_missing)) {}

  std::vector<StoredText> texts() const {
    std::vector<StoredText> result;
    for (int32_t k = 0; k < tc_store_size(store_.get()); ++k) {
      const auto text = ask<tc_stored_text>(tc_store_text, store_.get(), k);
      result.push_back({text.ns, text.source, text.by_user != 0, {}});
      for (int32_t i = 0; i < text.definition_count; ++i) {
        const auto found = ask<tc_stored_definition>(tc_store_definition, store_.get(), k, i);
        result.back().definitions.push_back(
            {found.name, found.operator_name, found.options, found.derived != 0, std::nullopt, {}});
        StoredDefinition& added = result.back().definitions.back();
        if (found.backward) added.backward = found.backward;
        for (int32_t p = 0; const char* pair = tc_store_pair(store_.get(), k, i, p); ++p)
          added.pairs.emplace_back(pair);
      }
    }
    return result;
  }

  /// Whether this version takes the text, said by an exception where it does not.
  void check_text(int32_t index) const {
    tc_module_free(ask<tc_module*>(tc_store_parse, store_.get(), index));
  }

  void add(const StoredText& text) {
    std::vector<OptionsPtr> kept;
    std::vector<const tc_options*> options;
    std::vector<const char*> names;
    for (const StoredDefinition& definition : text.definitions) {
      kept.emplace_back(ask<tc_options*>(tc_options_parse, definition.options.c_str()));
      options.push_back(kept.back().get());
      names.push_back(definition.operator_name.c_str());
    }
    check(tc_store_add(store_.get(), text.ns.c_str(), text.source.c_str(), text.by_user,
                       options.data(), names.data(), static_cast<int32_t>(names.size())));
    int32_t last = tc_store_size(store_.get()) - 1;
    for (size_t k = 0; k < text.definitions.size(); ++k) {
      const StoredDefinition& definition = text.definitions[k];
      if (definition.backward || definition.derived)
        check(
            tc_store_set_derivative(store_.get(), last, static_cast<int32_t>(k),
                                    definition.backward ? definition.backward->c_str() : nullptr));
      for (const std::string& backward : definition.pairs)
        check(tc_store_add_pair(store_.get(), last, static_cast<int32_t>(k), backward.c_str()));
    }
  }

  std::optional<std::string> find_options(const std::shared_ptr<Definition>& definition) const {
    const OptionsPtr found(
        ask<tc_options*>(tc_store_find_options, store_.get(), definition->get(), /*by_user=*/1));
    return found ? std::optional<std::string>(tc_options_text(found.get())) : std::nullopt;
  }

  std::vector<Tuning> tunings() const {
    std::vector<Tuning> result;
    for (int32_t k = 0; k < tc_store_tuning_count(store_.get()); ++k) result.push_back(tuning(k));
    return result;
  }

  /// The one for these arguments, or for others near to them; whether it is for these. Its Plans
  /// and trials have the names of this definition.
  std::optional<std::pair<Tuning, bool>> find_tuning(const std::shared_ptr<Definition>& definition,
                                                     const Options* options,
                                                     const std::string& target,
                                                     const Values& inputs,
                                                     const std::vector<at::Tensor>& outputs,
                                                     bool nearest) const {
    const std::vector<c10::IValue> values = to_ivalues(*definition, inputs);
    const CallArguments arguments(*definition, values);
    const Tensors given(outputs);
    int32_t index = -1, exact = 0;
    check(tc_store_find_tuning(store_.get(), definition->get(), get(options), c_text(target),
                               arguments.data(), arguments.count(), given.data(), given.count(),
                               nearest, &index, &exact));
    if (index < 0) return std::nullopt;
    Tuning found = tuning(index);
    for (size_t k = 0; k < found.plans.size(); ++k) {
      const OptionsPtr renamed(ask<tc_options*>(tc_store_tuned_options, store_.get(), index,
                                                static_cast<int32_t>(k), definition->get()));
      found.plans[k].options = tc_options_text(renamed.get());
    }
    if (found.text == tc_definition_text(definition->get()))
      return std::make_pair(std::move(found), exact != 0);
    std::vector<std::pair<std::string, double>> trials;
    for (size_t k = 0; k < found.trials.size(); ++k) {
      const OptionsPtr renamed(ask<tc_options*>(tc_store_trial_options, store_.get(), index,
                                                static_cast<int32_t>(k), definition->get()));
      if (renamed) trials.emplace_back(tc_options_text(renamed.get()), found.trials[k].second);
    }
    found.trials = std::move(trials);
    return std::make_pair(std::move(found), exact != 0);
  }

  void add_tuning(const std::shared_ptr<Definition>& definition, const Options* options,
                  const std::string& target, const Values& inputs,
                  const std::vector<at::Tensor>& outputs, const std::vector<TunedPlan>& plans,
                  const std::vector<std::pair<std::string, double>>& trials) {
    const std::vector<c10::IValue> values = to_ivalues(*definition, inputs);
    const CallArguments arguments(*definition, values);
    const Tensors given(outputs);
    std::vector<tc_tuned_plan> made;
    for (const TunedPlan& plan : plans)
      made.push_back({c_text(plan.options), plan.times, plan.standard, c_text(plan.processor),
                      plan.version.empty() ? nullptr : c_text(plan.version), plan.time,
                      plan.trial ? plan.trial->kernel() : nullptr, 0});
    std::vector<const char*> texts;
    std::vector<double> ratios;
    for (const auto& [text, ratio] : trials) {
      texts.push_back(c_text(text));
      ratios.push_back(ratio);
    }
    check(tc_store_add_tuning(store_.get(), definition->get(), get(options), c_text(target),
                              arguments.data(), arguments.count(), given.data(), given.count(),
                              made.data(), static_cast<int32_t>(made.size()), texts.data(),
                              ratios.data(), static_cast<int32_t>(texts.size())));
  }

  void use() const { use_tunings(store_.get()); }

  void save(const std::string& path) const { check(tc_store_save(store_.get(), c_text(path))); }

 private:
  Tuning tuning(int32_t index) const {
    const auto found = ask<tc_tuning>(tc_store_tuning, store_.get(), index);
    Tuning result{found.key,    found.text,    found.arguments, found.options,
                  found.target, found.machine, found.threads,   {},
                  {},           found.measured};
    for (int32_t k = 0; k < found.plan_count; ++k) {
      const auto plan = ask<tc_tuned_plan>(tc_store_tuned_plan, store_.get(), index, k);
      result.plans.push_back({plan.options, plan.times, plan.standard, plan.processor, plan.version,
                              plan.time, nullptr});
    }
    for (int32_t k = 0; k < found.trial_count; ++k) {
      const char* options = nullptr;
      double ratio = 0;
      check(tc_store_trial(store_.get(), index, k, &options, &ratio));
      result.trials.emplace_back(options, ratio);
    }
    return result;
  }

  std::unique_ptr<tc_store, Free<tc_store_free>> store_;
};

}  // namespace

void bind_store(py::module_& m) {
  py::class_<StoredDefinition>(m, "StoredDefinition")
      .def(py::init<std::string, std::string, std::string, bool, std::optional<std::string>,
                    std::vector<std::string>>(),
           py::arg("name"), py::arg("operator_name"), py::arg("options"), py::arg("derived"),
           py::arg("backward"), py::arg("pairs"))
      .def_readonly("name", &StoredDefinition::name)
      .def_readonly("operator_name", &StoredDefinition::operator_name)
      .def_readonly("options", &StoredDefinition::options)
      .def_readonly("derived", &StoredDefinition::derived)
      .def_readonly("backward", &StoredDefinition::backward)
      .def_readonly("pairs", &StoredDefinition::pairs);
  py::class_<StoredText>(m, "StoredText")
      .def(py::init<std::string, std::string, bool, std::vector<StoredDefinition>>(),
           py::arg("namespace"), py::arg("source"), py::arg("by_user"), py::arg("definitions"))
      .def_readonly("namespace", &StoredText::ns)
      .def_readonly("source", &StoredText::source)
      .def_readonly("by_user", &StoredText::by_user)
      .def_readonly("definitions", &StoredText::definitions);
  py::class_<tc_times>(m, "Times")
      .def(py::init<double, double, double, int64_t>(), py::arg("minimum"), py::arg("median"),
           py::arg("spread"), py::arg("runs"))
      .def_readonly("minimum", &tc_times::minimum)
      .def_readonly("median", &tc_times::median)
      .def_readonly("spread", &tc_times::spread)
      .def_readonly("runs", &tc_times::runs);
  py::class_<TunedPlan>(m, "TunedPlan")
      .def(py::init([](std::string options, tc_times times, tc_times standard,
                       std::string processor, int64_t time, const Trial* trial) {
             return TunedPlan{
                 std::move(options), times, standard, std::move(processor), "", time, trial};
           }),
           py::arg("options"), py::arg("times"), py::arg("standard"), py::arg("processor"),
           py::arg("time"), py::arg("trial"), py::keep_alive<1, 7>())
      .def_readonly("options", &TunedPlan::options)
      .def_readonly("times", &TunedPlan::times)
      .def_readonly("standard", &TunedPlan::standard)
      .def_readonly("processor", &TunedPlan::processor)
      .def_readonly("version", &TunedPlan::version)
      .def_readonly("time", &TunedPlan::time);
  py::class_<Tuning>(m, "Tuning")
      .def_readonly("key", &Tuning::key)
      .def_readonly("text", &Tuning::text)
      .def_readonly("arguments", &Tuning::arguments)
      .def_readonly("options", &Tuning::options)
      .def_readonly("target", &Tuning::target)
      .def_readonly("machine", &Tuning::machine)
      .def_readonly("threads", &Tuning::threads)
      .def_readonly("plans", &Tuning::plans)
      .def_readonly("trials", &Tuning::trials)
      .def_readonly("measured", &Tuning::measured);
  m.def("forget_tunings", tc_forget_tunings);
  m.def(
      "set_code_folder",
      [](const std::string& path, int64_t most_bytes) {
        check(tc_set_code_folder(path.empty() ? nullptr : c_text(path), most_bytes));
      },
      py::arg("path"), py::arg("most_bytes"));
  m.def(
      "prune_store",
      [](const std::string& path, int plans, int trials, bool this_machine) {
        check(tc_store_prune(c_text(path), plans, trials, this_machine));
      },
      py::arg("path"), py::arg("plans"), py::arg("trials"), py::arg("this_machine"),
      py::call_guard<Unlocked>());
  // Reading and saving wait for disks and for other processes.
  py::class_<Store>(m, "Store")
      .def(py::init())
      .def_static(
          "read",
          [](const std::string& path, bool may_be_missing) { return Store(path, may_be_missing); },
          py::arg("path"), py::arg("may_be_missing"), py::call_guard<Unlocked>())
      .def("texts", &Store::texts)
      .def("check_text", &Store::check_text, py::arg("index"), py::call_guard<Unlocked>())
      .def("add", &Store::add, py::arg("text"))
      .def("find_options", &Store::find_options, py::arg("definition"))
      .def("tunings", &Store::tunings)
      .def("find_tuning", &Store::find_tuning, py::arg("definition"), py::arg("options"),
           py::arg("target"), py::arg("inputs"), py::arg("outputs"), py::arg("nearest"))
      .def("add_tuning", &Store::add_tuning, py::arg("definition"), py::arg("options"),
           py::arg("target"), py::arg("inputs"), py::arg("outputs"), py::arg("plans"),
           py::arg("trials"))
      .def("use", &Store::use)
      .def("save", &Store::save, py::arg("path"), py::call_guard<Unlocked>());
}

}  // namespace tc_torch
