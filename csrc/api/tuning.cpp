// The C interface: tuned Plans in stores.
#include <string>
#include <utility>

#include "api/error.h"
#include "api/handles.h"
#include "api/store_handle.h"
#include "api/tuning_key.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "machine/facts.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/libraries.h"
#include "store/file.h"
#include "store/rename.h"

using namespace tc::api;

namespace {

using Tensors = const DLTensor* const*;

/// Of a GPU's kernel; nothing of others.
tc::store::DeviceCode code_of(const tc::runtime::Kernel& kernel) {
  if (!dynamic_cast<const tc::runtime::CudaKernel*>(&kernel)) return {};
  const std::string source = kernel.text("cuda_source");
  return {std::string(kernel.binary().begin(), kernel.binary().end()), kernel.text("build_log"),
          tc::crc32(source.data(), source.size())};
}

tc::store::TuningKey key_of(const tc_definition* definition, const tc_options* options,
                            const char* target, Tensors inputs, int32_t input_count,
                            Tensors outputs, int32_t output_count) {
  const tc::lang::Definition& own = *required(definition, "definition").definition;
  tc::Target chosen = tc::parse_target(target ? target : "cpu");
  const Specialized specialized =
      specialize(own, inputs, input_count, outputs, output_count, /*addresses=*/false);
  chosen.device = specialized.arguments.device.device_id;
  return tuning_key(own, specialized, options ? options->options : tc::make_options("default"),
                    chosen, tc::machine::look_up(tc::runtime::host_threads()).cpu);
}

/// A definition whose names Plans of this tuning can be said by.
const tc::lang::Definition& named_like(const tc::store::Tuning& own,
                                       const tc_definition* definition) {
  const tc::lang::Definition& wanted = *required(definition, "definition").definition;
  if (wanted.key != own.key.definition)
    throw tc::UsageError("the Plan is for another definition than ", wanted.name, ":\n  ",
                         own.key.text);
  return wanted;
}

}  // namespace

int32_t tc_store_tuning_count(const tc_store* store) {
  return value_or_zero([&] { return count_of(required(store, "store").tunings); });
}

tc_status tc_store_tuning(const tc_store* store, int32_t index, tc_tuning* tuning) {
  return give(tuning, "tuning", [&] {
    const tc::store::Tuning& found = at(required(store, "store").tunings, index, "tuning");
    const tc_store::TuningTexts& texts = store->tuning_texts[static_cast<size_t>(index)];
    return tc_tuning{found.key.definition.c_str(),
                     found.key.text.c_str(),
                     texts.arguments.c_str(),
                     texts.options.c_str(),
                     found.key.target.c_str(),
                     found.key.machine.c_str(),
                     found.key.threads,
                     count_of(found.plans),
                     count_of(found.trials),
                     found.measured};
  });
}

tc_status tc_store_tuned_plan(const tc_store* store, int32_t tuning, int32_t index,
                              tc_tuned_plan* plan) {
  return give(plan, "plan", [&] {
    const tc::store::Tuning& own = at(required(store, "store").tunings, tuning, "tuning");
    const tc::store::TunedPlan& found = at(own.plans, index, "plan");
    const auto& texts = store->tuning_texts[static_cast<size_t>(tuning)].plans;
    return tc_tuned_plan{texts[static_cast<size_t>(index)].c_str(),
                         found.times,
                         found.standard,
                         found.processor.c_str(),
                         found.version.c_str(),
                         found.time,
                         nullptr,
                         static_cast<int64_t>(found.code.cubin.size())};
  });
}

tc_status tc_store_tuned_options(const tc_store* store, int32_t tuning, int32_t index,
                                 const tc_definition* definition, tc_options** options) {
  return give(options, "options", [&] {
    const tc::store::Tuning& own = at(required(store, "store").tunings, tuning, "tuning");
    const tc::MappingOptions& found = at(own.plans, index, "plan").options;
    const tc::lang::Definition& wanted = named_like(own, definition);
    return new tc_options(tc::store::rename(found, own.key.text, wanted.text));
  });
}

tc_status tc_store_trial(const tc_store* store, int32_t tuning, int32_t index, const char** options,
                         double* ratio) {
  clear(options, ratio);
  return guarded([&] {
    required(options, "options");
    required(ratio, "ratio");
    const tc::store::Trial& found =
        at(at(required(store, "store").tunings, tuning, "tuning").trials, index, "trial");
    *options = found.options.c_str();
    *ratio = found.ratio.value_or(-1);
  });
}

tc_status tc_store_trial_options(const tc_store* store, int32_t tuning, int32_t index,
                                 const tc_definition* definition, tc_options** options) {
  return give(options, "options", [&]() -> tc_options* {
    const tc::store::Tuning& own = at(required(store, "store").tunings, tuning, "tuning");
    const tc::store::Trial& found = at(own.trials, index, "trial");
    const tc::lang::Definition& wanted = named_like(own, definition);
    tc::MappingOptions parsed;
    try {
      parsed = tc::parse_options(found.options);
    } catch (const tc::UsageError&) {
      return nullptr;
    }
    return new tc_options(tc::store::rename(parsed, own.key.text, wanted.text));
  });
}

tc_status tc_store_add_tuning(tc_store* store, const tc_definition* definition,
                              const tc_options* options, const char* target, Tensors inputs,
                              int32_t input_count, Tensors outputs, int32_t output_count,
                              const tc_tuned_plan* plans, int32_t plan_count,
                              const char* const* trials, const double* ratios,
                              int32_t trial_count) {
  return guarded([&] {
    required(store, "store");
    check_array(plans, "plans", plan_count, "plan_count");
    check_array(trials, "trials", trial_count, "trial_count");
    check_array(ratios, "ratios", trial_count, "trial_count");
    tc::store::Tuning added;
    added.key = key_of(definition, options, target, inputs, input_count, outputs, output_count);
    added.measured = trial_count;
    for (int32_t k = 0; k < plan_count; ++k) {
      const tc_tuned_plan& plan = plans[k];
      tc::store::TunedPlan made;
      made.options =
          tc::parse_options(&required(plan.options, tc::concat("plans[", k, "].options").c_str()));
      tc::store::check_times(plan.times, tc::concat("plans[", k, "].times"));
      tc::store::check_times(plan.standard, tc::concat("plans[", k, "].standard"));
      made.times = plan.times;
      made.standard = plan.standard;
      made.processor = plan.processor ? plan.processor : "";
      made.version = plan.version ? plan.version : tc_version();
      made.time = plan.time;
      if (plan.kernel) made.code = code_of(*plan.kernel->kernel);
      added.plans.push_back(std::move(made));
    }
    for (int32_t k = 0; k < trial_count; ++k) {
      tc::store::Trial trial{&required(trials[k], tc::concat("trials[", k, "]").c_str()),
                             std::nullopt};
      if (ratios[k] >= 0) trial.ratio = ratios[k];
      added.trials.push_back(std::move(trial));
    }
    store->add(std::move(added));
  });
}

tc_status tc_store_find_tuning(const tc_store* store, const tc_definition* definition,
                               const tc_options* options, const char* target, Tensors inputs,
                               int32_t input_count, Tensors outputs, int32_t output_count,
                               int32_t nearest, int32_t* index, int32_t* exact) {
  clear(index, exact);
  return guarded([&] {
    required(index, "index");
    required(exact, "exact");
    const auto& tunings = required(store, "store").tunings;
    bool same = false;
    const tc::store::Tuning* found = tc::store::find_tuning(
        tunings, key_of(definition, options, target, inputs, input_count, outputs, output_count),
        &same);
    const bool is_found = found && (same || nearest);
    *index = is_found ? static_cast<int32_t>(found - tunings.data()) : -1;
    *exact = is_found && same;
  });
}

tc_status tc_store_use(const tc_store* store, int32_t* changed, int32_t capacity, int32_t* count) {
  clear(count);
  return guarded([&] {
    const auto& tunings = required(store, "store").tunings;
    required(count, "count");
    check_array(changed, "changed", capacity, "capacity");
    give_list(tc::store::use(tunings), changed, capacity, count);
  });
}

void tc_forget_tunings(void) { tc::store::forget_tunings(); }

tc_status tc_store_prune(const char* path, int32_t plans, int32_t trials, int32_t this_machine) {
  return guarded([&] {
    check_path(path);
    if (plans < 0 || trials < 0)
      throw tc::UsageError("plans is ", plans, " and trials ", trials,
                           "; what is kept cannot be negative");
    tc::store::Kept kept;
    kept.plans = static_cast<size_t>(plans);
    kept.trials = static_cast<size_t>(trials);
    if (this_machine)
      kept.machine = tc::machine::likeness(tc::machine::look_up(tc::runtime::host_threads()).cpu);
    tc::store::read_file(path, tc::store::Missing::Error);
    tc::store::update_file(
        path, [&](const std::string& before) { return tc::store::prune(before, kept, path); });
  });
}
