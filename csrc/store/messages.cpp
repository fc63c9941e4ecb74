#include "store/messages.h"

#include <utility>

#include "base/error.h"
#include "store.pb.h"

namespace tc::store {
namespace {

namespace pb = ::tensor_comprehensions::store;

pb::FusionStrategy to_message(FusionStrategy strategy) {
  switch (strategy) {
    case FusionStrategy::Max: return pb::FUSION_MAX;
    case FusionStrategy::Min: return pb::FUSION_MIN;
    case FusionStrategy::Preserve3Coincident: return pb::FUSION_PRESERVE_3_COINCIDENT;
  }
  throw InternalError(__FILE__, __LINE__, "a fusion strategy without a number in store.proto");
}

FusionStrategy from_message(pb::FusionStrategy strategy) {
  switch (strategy) {
    case pb::FUSION_MAX: return FusionStrategy::Max;
    case pb::FUSION_MIN: return FusionStrategy::Min;
    case pb::FUSION_PRESERVE_3_COINCIDENT: return FusionStrategy::Preserve3Coincident;
    default: throw UsageError("a fusion strategy that this version does not have");
  }
}

void times_to_message(const tc_times& times, pb::Times& message) {
  message.set_minimum(times.minimum);
  message.set_median(times.median);
  message.set_spread(times.spread);
  message.set_runs(times.runs);
}

tc_times times_from_message(const pb::Times& message) {
  const tc_times times{message.minimum(), message.median(), message.spread(), message.runs()};
  check_times(times, "a tuned Plan");
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
    // Earlier versions kept strides that lead nowhere as they came.
    added.layout = canonical(std::move(added.layout));
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

void options_to_message(const MappingOptions& options, pb::MappingOptions& message) {
  message.set_preset(options.preset);
  // For readers of before: whatever is set here ended the compiler's own choice.
  message.set_automatic(!options.decides_loops());
  message.set_identity(options.identity);
  message.set_outer_fusion(to_message(options.outer_fusion));
  message.mutable_tile()->Assign(options.tile.begin(), options.tile.end());
  message.mutable_threads()->Assign(options.threads.begin(), options.threads.end());
  message.mutable_blocks()->Assign(options.blocks.begin(), options.blocks.end());
  message.set_vectorize(options.vectorize);
  message.set_parallel(options.parallel);
  if (options.match_library_calls) message.set_match_library_calls(*options.match_library_calls);
  message.set_check_indices(options.check_indices);
  message.set_intra_tile_fusion(to_message(options.intra_tile_fusion));
  message.set_unroll(options.unroll);
  message.set_tile_imperfectly_nested(options.tile_imperfectly_nested);
  message.set_use_shared_memory(options.use_shared_memory);
  message.set_use_private_memory(options.use_private_memory);
  message.set_unroll_copy_shared(options.unroll_copy_shared);
  message.set_max_shared_memory(options.max_shared_memory);
  message.set_use_readonly_cache(options.use_readonly_cache);
  message.set_fix_parameters_before_scheduling(options.fix_parameters_before_scheduling);
  if (options.library_calls) {
    pb::LibraryCalls* calls = message.mutable_library_calls();
    for (const std::string& statement : *options.library_calls) calls->add_statements(statement);
  }
  for (const plan::ClusterOptions& cluster : options.clusters)
    message.add_clusters(plan::to_string(cluster));
}

MappingOptions options_from_message(const pb::MappingOptions& message) {
  MappingOptions options = make_options(message.preset());
  bool identity = options.identity;
  if (message.has_identity()) options.identity = message.identity();
  options.outer_fusion = from_message(message.outer_fusion());
  options.tile.assign(message.tile().begin(), message.tile().end());
  options.threads.assign(message.threads().begin(), message.threads().end());
  options.blocks.assign(message.blocks().begin(), message.blocks().end());
  // Files of before hold lists that meant nothing while the compiler chose.
  if (message.automatic()) {
    options.tile.clear();
    options.threads.clear();
    options.blocks.clear();
  }
  if (message.has_vectorize()) options.vectorize = message.vectorize();
  if (message.has_parallel()) options.parallel = message.parallel();
  if (message.has_match_library_calls())
    options.match_library_calls = message.match_library_calls();
  if (message.has_check_indices()) options.check_indices = message.check_indices();
  options.intra_tile_fusion = from_message(message.intra_tile_fusion());
  if (message.has_unroll()) options.unroll = message.unroll();
  if (message.has_tile_imperfectly_nested())
    options.tile_imperfectly_nested = message.tile_imperfectly_nested();
  if (message.has_use_shared_memory()) options.use_shared_memory = message.use_shared_memory();
  if (message.has_use_private_memory()) options.use_private_memory = message.use_private_memory();
  if (message.has_unroll_copy_shared()) options.unroll_copy_shared = message.unroll_copy_shared();
  if (message.has_max_shared_memory()) options.max_shared_memory = message.max_shared_memory();
  if (message.has_use_readonly_cache()) options.use_readonly_cache = message.use_readonly_cache();
  if (message.has_fix_parameters_before_scheduling())
    options.fix_parameters_before_scheduling = message.fix_parameters_before_scheduling();
  if (message.has_library_calls())
    options.library_calls.emplace(message.library_calls().statements().begin(),
                                  message.library_calls().statements().end());
  for (const std::string& cluster : message.clusters())
    for (const PythonCall& call : parse_calls("MappingOptions()" + cluster, "these are no options"))
      if (call.name != "MappingOptions") set_option(options, call);
  // The setters know what values there may be; the text that calls them says all of the options.
  std::string text = to_string(options);
  if (options.identity != identity || parse_options(text) != options)
    throw UsageError("options that no setters give: ", text);
  return options;
}

void tuning_to_message(const Tuning& tuning, pb::Tuning& message) {
  if (!message.has_key()) key_to_message(tuning.key, *message.mutable_key());
  message.set_text(tuning.key.text);
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
  tuning.key.text = message.text();
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
