// The C interface: compiling and running.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"
#include "api/handles.h"
#include "api/tuning_key.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/notes.h"
#include "base/threads/leaf_mutex.h"
#include "base/threads/task.h"
#include "compile.h"
#include "compile_tuned.h"
#include "lang/sema/roles.h"
#include "machine/facts.h"
#include "runtime/arguments.h"
#include "runtime/check_tensor.h"
#include "runtime/kernel_cache.h"
#include "runtime/libraries.h"
#include "store/code_folder.h"
#include "store/rename.h"

using namespace tc::api;

namespace {

using Tensors = const DLTensor* const*;

/// Puts the inputs' device into a target, which is what `text` says.
void set_device(tc::Target& target, const char* text, DLDevice device) {
  target.device = device.device_id;
  bool on_gpu = device.device_type == kDLCUDA;
  if (!target.offline && target.cuda != on_gpu)
    throw tc::ShapeError("target ", text ? text : "cpu", " but the inputs are on ",
                         on_gpu ? "a GPU" : "the CPU",
                         "; move them, or compile with target=\"cuda:sm_90\" for a GPU "
                         "that need not be here");
}

/// Whether the environment leaves out the checks of all kernels that are compiled from now on.
bool leaves_out_checks() {
  const char* given = std::getenv("TC_CHECK");
  std::string value = given ? given : "";
  if (value.empty() || value == "1") return false;
  if (value == "0") return true;
  throw tc::UsageError("TC_CHECK: '", value,
                       "' is neither 1, to look at every index that is data, as without "
                       "the variable, nor 0, to look at none");
}

/// Everything that decides the code but options. Names are part of it, since texts about the kernel
/// show them.
std::string subject_of(const tc::lang::Definition& definition,
                       const tc::runtime::Arguments& arguments, const tc::Target& target) {
  std::string key = definition.text +
                    tc::concat("\n", target.cuda, target.arch, ":", target.device, target.offline);
  // A described machine decides otherwise, and so does one with a library.
  const char* machine = std::getenv("TC_MACHINE");
  const tc_libraries* library = tc::runtime::libraries();
  key += tc::concat("\n", machine ? machine : "", "\n",
                    library ? tc::runtime::identity(*library) : std::string());
  // Scatters are split for the threads there are.
  if (definition.scatters()) key += tc::concat("\n", tc::runtime::host_threads());
  for (const auto& [name, value] : arguments.values()) key += tc::concat("\n", name, "=", value);
  for (const auto& [name, layout] : arguments.layouts) {
    key += "\n" + name;
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      key += tc::concat(" ", layout.sizes[d], "@", layout.strides[d]);
  }
  return key;
}

/// What is being done, for those who wait: "compiling f for M = 3, N = 4".
std::string compiling(const tc::lang::Definition& definition,
                      const std::map<std::string, int64_t>& values) {
  std::vector<std::string> list;
  for (const auto& [name, value] : values) list.push_back(tc::concat(name, " = ", value));
  return "compiling " + definition.name + (list.empty() ? "" : " for " + tc::join(list));
}

/// A run must have the sizes, strides and scalars that the kernel was compiled for.
void check_match(const tc_kernel& kernel, const tc::runtime::Arguments& arguments) {
  const std::map<std::string, int64_t> given = arguments.values();
  for (const auto& [name, value] : kernel.arguments.values())
    if (given.at(name) != value)
      throw tc::ShapeError(kernel.program.name, " was compiled for ", name, " = ", value,
                           " but these inputs have ", name, " = ", given.at(name),
                           "; compile again, or call the definition itself");
  if (!tc::runtime::is_same_device(arguments.device, kernel.arguments.device))
    throw tc::ShapeError(kernel.program.name, " was compiled for tensors on ",
                         tc::runtime::device_name(kernel.arguments.device), " but these are on ",
                         tc::runtime::device_name(arguments.device),
                         "; compile again, or move them");
  auto check = [&](const std::string& name) {
    if (arguments.layouts.at(name) == kernel.arguments.layouts.at(name)) return;
    throw tc::ShapeError("argument ", name, " has other strides than ", kernel.program.name,
                         " was compiled for; compile again, or pass it as it was then");
  };
  for (const tc::ir::Parameter& parameter : kernel.program.parameters)
    if (!parameter.scalar) check(parameter.name);
  for (const std::string& name : kernel.program.outputs) check(name);
}

/// The places of arguments that a launch reads or writes, so that they must have memory.
std::vector<size_t> find_needed(const tc_kernel& kernel) {
  const tc::ir::Program& program = kernel.program;
  std::vector<size_t> places;
  auto add = [&](const std::string& name, size_t place) {
    const std::vector<int64_t>& sizes = kernel.arguments.layouts.at(name).sizes;
    if (std::count(sizes.begin(), sizes.end(), 0) == 0) places.push_back(place);
  };
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const tc::ir::Parameter& parameter = program.parameters[i];
    if (parameter.scalar) {
      if (!program.scalars.at(parameter.name).specialized) places.push_back(i);
    } else if (tc::lang::elements_read(*kernel.definition->tree, parameter.name)) {
      add(parameter.name, i);
    }
  }
  for (size_t o = 0; o < program.outputs.size(); ++o)
    add(program.outputs[o], program.parameters.size() + o);
  return places;
}

[[noreturn]] void refuse_null(const tc_kernel& kernel, size_t place) {
  const tc::ir::Program& program = kernel.program;
  bool input = place < program.parameters.size();
  throw tc::UsageError(
      "pointers[", place, "] must not be NULL: ", program.name, input ? " reads " : " writes ",
      input ? program.parameters[place].name : program.outputs[place - program.parameters.size()]);
}

template <class Result>
Result launch(const tc_kernel* kernel, const tc_host* host, void* const* pointers,
              Result (tc::runtime::Kernel::*method)(const tc_host&, void* const*) const) {
  required(kernel, "kernel");
  required(pointers, "pointers");
  const tc_host& chosen = host ? *host : *tc_default_host();
  check_host(chosen, kernel->arguments.device.device_type == kDLCUDA);
  for (size_t place : kernel->needed)
    if (!pointers[place]) refuse_null(*kernel, place);
  return (*kernel->kernel.*method)(chosen, pointers);
}

/// Of what handles keep for tc_kernel_text, where nobody compiles.
tc::LeafMutex& texts_mutex = *new tc::LeafMutex;

tc_status compile(const tc_definition* definition, const tc_options* options, const char* target,
                  Tensors inputs, int32_t input_count, Tensors outputs, int32_t output_count,
                  bool trial, tc_kernel** kernel) {
  return give(kernel, "kernel", [&] {
    const auto& shared = required(definition, "definition").definition;
    const tc::MappingOptions given = options ? options->options : tc::make_options("default");
    auto handle = std::make_unique<tc_kernel>();
    tc::Target chosen = tc::parse_target(target ? target : "cpu");
    Specialized specialized = specialize(*shared, inputs, input_count, outputs, output_count,
                                         /*addresses=*/!chosen.offline);
    set_device(chosen, target, specialized.arguments.device);
    tc::MappingOptions mapping = given;
    if (leaves_out_checks()) mapping.check_indices = false;
    const tc::CpuMachine machine = tc::machine::look_up(tc::runtime::host_threads()).cpu;
    std::optional<tc::store::Found> tuned =
        !trial && tc::store::knows_tunings(shared->key)
            ? tc::store::find_known(tuning_key(*shared, specialized, given, chosen, machine))
            : std::nullopt;
    if (tuned && tuned->text != shared->text)
      tuned->plan.options = tc::store::rename(tuned->plan.options, tuned->text, shared->text);
    handle->definition = shared;
    handle->program = std::move(specialized.program);
    handle->arguments = std::move(specialized.arguments);
    handle->needed = find_needed(*handle);
    tc::CompileContext context;
    context.subject = subject_of(*shared, handle->arguments, chosen);
    context.trial = trial;
    // Kernels of this process are bound to the functions of one library.
    std::string key =
        tc::concat(context.subject, "\n", tc::runtime::libraries(), "\n", tc::to_string(mapping));
    if (tuned) {
      // For the nearest sizes' it may be the compiler's own that runs.
      const std::string& code = tuned->plan.code.cubin;
      key += tc::concat("\ntuned for ", tuned->exact ? "these" : tuned->arguments, ": ",
                        tc::to_string(tuned->plan.options), "\n",
                        tc::crc32(code.data(), code.size()), " ", tuned->plan.code.source_checksum);
    }
    if (trial) key += "\ntrial";
    handle->kernel = tc::runtime::find_or_compile(
        key, compiling(*shared, handle->arguments.values()),
        [program = handle->program, layouts = handle->arguments.layouts, mapping, chosen, machine,
         tuned, context] {
          if (tuned)
            if (auto kernel =
                    tc::compile_tuned(*tuned, program, layouts, mapping, chosen, machine, context))
              return kernel;
          return tc::compile(program, layouts, mapping, chosen, machine, context);
        });
    return handle.release();
  });
}

}  // namespace

tc_status tc_compile(const tc_definition* definition, const tc_options* options, const char* target,
                     Tensors inputs, int32_t input_count, Tensors outputs, int32_t output_count,
                     tc_kernel** kernel) {
  return compile(definition, options, target, inputs, input_count, outputs, output_count, false,
                 kernel);
}

tc_status tc_compile_trial(const tc_definition* definition, const tc_options* options,
                           const char* target, Tensors inputs, int32_t input_count, Tensors outputs,
                           int32_t output_count, tc_kernel** kernel) {
  return compile(definition, options, target, inputs, input_count, outputs, output_count, true,
                 kernel);
}

tc_status tc_set_code_folder(const char* path, int64_t most_bytes) {
  return guarded([&] { tc::store::set_code_folder(path ? path : "", most_bytes); });
}

void tc_kernel_free(tc_kernel* kernel) { delete kernel; }

tc_status tc_kernel_run(const tc_kernel* kernel, const tc_host* host, Tensors inputs,
                        int32_t input_count, Tensors outputs, int32_t output_count) {
  return guarded([&] {
    const tc_kernel& k = required(kernel, "kernel");
    tc::runtime::Arguments arguments =
        tc::runtime::check_inputs(*k.definition, inputs, input_count);
    tc::runtime::check_outputs(k.program, inputs, input_count, outputs, output_count, true,
                               arguments);
    check_match(k, arguments);
    std::vector<const DLTensor*> tensors(inputs, inputs + input_count);
    tensors.insert(tensors.end(), outputs, outputs + output_count);
    const size_t parameters = k.program.parameters.size();
    for (size_t place : k.needed)
      tc::runtime::check_data(
          *tensors[place], place < parameters ? "argument " + k.program.parameters[place].name
                                              : "output " + k.program.outputs[place - parameters]);
    std::vector<void*> pointers;
    for (const DLTensor* tensor : tensors) pointers.push_back(tc::runtime::data_pointer(*tensor));
    launch(kernel, host, pointers.data(), &tc::runtime::Kernel::launch);
  });
}

tc_status tc_kernel_launch(const tc_kernel* kernel, const tc_host* host, void* const* pointers) {
  return guarded([&] { launch(kernel, host, pointers, &tc::runtime::Kernel::launch); });
}

tc_status tc_kernel_launch_unchecked(const tc_kernel* kernel, const tc_host* host,
                                     void* const* pointers) {
  return guarded([&] { launch(kernel, host, pointers, &tc::runtime::Kernel::launch_unchecked); });
}

tc_status tc_kernel_time(const tc_kernel* kernel, const tc_host* host, void* const* pointers,
                         double* seconds) {
  return give(seconds, "seconds",
              [&] { return launch(kernel, host, pointers, &tc::runtime::Kernel::time); });
}

tc_status tc_kernel_text(const tc_kernel* kernel, const char* what, const char** text) {
  return give(text, "text", [&] {
    const tc_kernel& k = required(kernel, "kernel");
    std::string name = &required(what, "what");
    {
      const tc::LeafLock lock(texts_mutex);
      auto found = k.texts.find(name);
      if (found != k.texts.end()) return found->second.c_str();
    }
    std::string made = k.kernel->text(name);  // compiles, perhaps
    const tc::LeafLock lock(texts_mutex);
    return k.texts.emplace(name, std::move(made)).first->second.c_str();
  });
}

tc_status tc_kernel_number(const tc_kernel* kernel, const char* what, int64_t* value) {
  return give(value, "value", [&] {
    const std::string name = &required(what, "what");
    const tc::runtime::Kernel& k = *required(kernel, "kernel").kernel;
    return name == "bytes" ? k.bytes() : k.number(name);
  });
}

tc_status tc_kernel_binary(const tc_kernel* kernel, const void** data, size_t* size) {
  clear(data, size);
  return guarded([&] {
    required(data, "data");
    required(size, "size");
    const std::vector<char>& binary = required(kernel, "kernel").kernel->binary();
    *data = binary.data();
    *size = binary.size();
  });
}

tc_status tc_set_libraries(const tc_libraries* libraries) {
  return guarded([&] {
    if (libraries) {
      required(libraries->name, "libraries: name");
      required(libraries->multiply, "libraries: multiply");
      required(libraries->convolve, "libraries: convolve");
      required(libraries->deterministic, "libraries: deterministic");
      check_host(required(libraries->host, "libraries: host"), /*gpu=*/false);
    }
    tc::runtime::set_libraries(libraries);
  });
}
