#include "api/tuning_key.h"

#include "base/arguments.h"
#include "base/threads/task.h"
#include "machine/facts.h"
#include "runtime/cuda/driver.h"

namespace tc::api {

Specialized specialize(const lang::Definition& definition, const DLTensor* const* inputs,
                       int32_t input_count, const DLTensor* const* outputs, int32_t output_count,
                       bool addresses) {
  check_array(outputs, "outputs", output_count, "output_count");
  Specialized result;
  result.arguments = runtime::check_inputs(definition, inputs, input_count);
  run_short([&] { result.program = runtime::specialize(definition, result.arguments); });
  if (outputs) {
    runtime::check_outputs(result.program, inputs, input_count, outputs, output_count, addresses,
                           result.arguments);
  } else {
    for (const std::string& name : result.program.outputs)
      result.arguments.layouts[name] = row_major(result.program.tensor(name));
  }
  return result;
}

store::TuningKey tuning_key(const lang::Definition& definition, const Specialized& specialized,
                            const MappingOptions& options, const Target& target,
                            const CpuMachine& machine) {
  store::TuningKey key;
  key.definition = definition.key;
  key.text = definition.text;
  for (const ir::Parameter& parameter : specialized.program.parameters) {
    store::TunedArgument argument;
    if (!parameter.scalar) {
      argument.layout = specialized.arguments.layouts.at(parameter.name);
    } else {
      const auto value = specialized.arguments.scalars.find(parameter.name);
      if (value != specialized.arguments.scalars.end()) argument.value = value->second;
    }
    key.arguments.push_back(std::move(argument));
  }
  key.inputs = key.arguments.size();
  for (const std::string& name : specialized.program.outputs)
    key.arguments.push_back({specialized.arguments.layouts.at(name), std::nullopt});
  key.options = options;
  key.target = "cpu";
  if (target.cuda)
    key.target =
        "cuda:" + (target.arch.empty() ? runtime::Device::get(target.device).arch() : target.arch);
  if (!target.cuda) key.machine = machine::likeness(machine);
  key.threads = target.cuda ? 1 : machine.threads;
  return key;
}

}  // namespace tc::api
