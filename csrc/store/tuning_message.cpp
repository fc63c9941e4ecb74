#include "store/tuning_message.h"

#include <cmath>

#include "base/error.h"
#include "store.pb.h"
#include "store/options_message.h"

namespace tc::store {
namespace {

namespace pb = ::tensor_comprehensions::store;

void times_to_message(const tc_times& times, pb::Times& message) {
  message.set_minimum(times.minimum);
  message.set_median(times.median);
  message.set_spread(times.spread);
  message.set_runs(times.runs);
}

tc_times times_from_message(const pb::Times& message) {
  const tc_times times{message.minimum(), message.median(), message.spread(), message.runs()};
  for (double value : {times.minimum, times.median, times.spread})
    if (!std::isfinite(value) || value < 0)
      throw UsageError("a time of ", value, " in a tuned Plan");
  return times;
}

void key_to_message(const TuningKey& key, pb::TuningKey& message) {
  message.set_definition(key.definition);
  for (const TunedArgument& argument : key.arguments) {
    pb::Argument& added = *message.add_arguments();
    const Layout& layout = argument.layout;
    added.mutable_sizes()->Assign(layout.sizes.begin(), layout.sizes.end());
    added.mutable_strides()->Assign(layout.strides.begin(), layout.strides.end());
    if (argument.value) added.set_value(*argument.value);
  }
  options_to_message(key.options, *message.mutable_options());
  message.set_target(key.target);
  message.set_machine(key.machine);
  message.set_threads(key.threads);
  message.set_inputs(static_cast<int32_t>(key.inputs));
}

TuningKey key_from_message(const pb::TuningKey& message) {
  TuningKey key;
  key.definition = message.definition();
  for (const pb::Argument& argument : message.arguments()) {
    TunedArgument added;
    added.layout.sizes.assign(argument.sizes().begin(), argument.sizes().end());
    added.layout.strides.assign(argument.strides().begin(), argument.strides().end());
    if (added.layout.sizes.size() != added.layout.strides.size())
      throw UsageError("an argument of ", added.layout.sizes.size(), " sizes and ",
                       added.layout.strides.size(), " strides in a tuned Plan");
    for (int64_t size : added.layout.sizes)
      if (size < 0) throw UsageError("an argument of size ", size, " in a tuned Plan");
    if (argument.has_value()) added.value = argument.value();
    key.arguments.push_back(std::move(added));
  }
  key.options = options_from_message(message.options());
  key.target = message.target();
  key.machine = message.machine();
  key.threads = message.threads();
  if (message.inputs() < 0 || message.inputs() > message.arguments_size())
    throw UsageError(message.inputs(), " inputs among ", message.arguments_size(),
                     " arguments in a tuned Plan");
  key.inputs = static_cast<size_t>(message.inputs());
  return key;
}

}  // namespace

void tuning_to_message(const Tuning& tuning, pb::Tuning& message) {
  if (!message.has_key()) key_to_message(tuning.key, *message.mutable_key());
  message.set_text(tuning.text);
  message.set_measured(tuning.measured);
  message.clear_plans();
  for (const TunedPlan& plan : tuning.plans) {
    pb::TunedPlan& added = *message.add_plans();
    options_to_message(plan.options, *added.mutable_options());
    times_to_message(plan.times, *added.mutable_times());
    times_to_message(plan.standard, *added.mutable_standard());
    added.set_processor(plan.processor);
    added.set_version(plan.version);
    added.set_time(plan.time);
    if (plan.code.cubin.empty()) continue;
    pb::DeviceCode& code = *added.mutable_code();
    code.set_cubin(plan.code.cubin);
    code.set_log(plan.code.log);
    code.set_source_crc32(plan.code.source_checksum);
  }
  message.clear_trials();
  for (const Trial& trial : tuning.trials) {
    pb::Trial& added = *message.add_trials();
    added.set_options(trial.options);
    if (trial.ratio) added.set_ratio(*trial.ratio);
  }
}

Tuning tuning_from_message(const pb::Tuning& message) {
  Tuning tuning;
  tuning.key = key_from_message(message.key());
  tuning.text = message.text();
  tuning.measured = message.measured();
  for (const pb::TunedPlan& plan : message.plans())
    tuning.plans.push_back({options_from_message(plan.options()),
                            times_from_message(plan.times()),
                            times_from_message(plan.standard()),
                            plan.processor(),
                            plan.version(),
                            plan.time(),
                            {plan.code().cubin(), plan.code().log(), plan.code().source_crc32()}});
  for (const pb::Trial& trial : message.trials()) {
    Trial added{trial.options(), std::nullopt};
    if (trial.has_ratio()) added.ratio = trial.ratio();
    tuning.trials.push_back(std::move(added));
  }
  return tuning;
}

}  // namespace tc::store
