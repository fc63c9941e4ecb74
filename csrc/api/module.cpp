// The C interface: texts and definitions.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/error.h"
#include "api/handles.h"
#include "base/arguments.h"
#include "base/threads/task.h"
#include "lang/gradient/gradient.h"
#include "lang/gradient/kept_values.h"
#include "lang/lowering/definition.h"
#include "lang/sema/recurrences.h"
#include "lang/sema/roles.h"
#include "lang/syntax/formatter.h"
#include "lang/variants/batch.h"
#include "lang/variants/scalar_tensors.h"
#include "lang/variants/sharding.h"
#include "lang/variants/size_parameters.h"
#include "runtime/arguments.h"
#include "runtime/size_text.h"

using namespace tc::api;

namespace {

const tc::lang::Definition& definition_of(const tc_definition* definition) {
  return *required(definition, "definition").definition;
}

tc::ir::Program infer_ranges(const tc::lang::Definition& definition, const DLTensor* const* inputs,
                             int32_t input_count) {
  tc::ir::Program program;
  tc::run_short([&] {
    program = tc::lang::infer_ranges(definition,
                                     tc::runtime::scalar_values(definition, inputs, input_count));
  });
  return program;
}

/// The place of a parameter; -1 where there is none of that name.
int32_t find_parameter(const tc::ir::Program& signature, const std::string& name) {
  for (size_t k = 0; k < signature.parameters.size(); ++k)
    if (signature.parameters[k].name == name) return static_cast<int32_t>(k);
  return -1;
}

std::vector<std::string> input_names(const tc::lang::Definition& definition) {
  std::vector<std::string> names;
  for (const tc::ir::Parameter& parameter : definition.signature.parameters)
    names.push_back(parameter.name);
  return names;
}

/// The names that have a flag: there is one for each of them.
std::set<std::string> flagged(const std::vector<std::string>& names, const int32_t* flags,
                              const char* what) {
  if (!names.empty()) required(flags, what);
  std::set<std::string> result;
  for (size_t k = 0; k < names.size(); ++k)
    if (flags[k]) result.insert(names[k]);
  return result;
}

/// A text that is made of a definition, as long work.
template <class Request>
std::string write_apart(const std::string& doing, const tc_definition* definition,
                        std::string (*write)(const tc::lang::Definition&, const Request&),
                        const Request& request) {
  const auto& shared = definition->definition;
  return tc::run_apart(doing + shared->name,
                       [shared, write, request] { return write(*shared, request); });
}

const char* collective_name(tc::ir::Reduction reduction) {
  switch (reduction) {
    case tc::ir::Reduction::Sum: return "sum";
    case tc::ir::Reduction::Product: return "product";
    case tc::ir::Reduction::Min: return "min";
    case tc::ir::Reduction::Max: return "max";
    default: return nullptr;
  }
}

}  // namespace

tc_status tc_module_parse(const char* text, tc_module** module) {
  return give(module, "module", [&] {
    required(text, "text");
    auto handle = std::make_unique<tc_module>();
    tc::lang::Module parsed = tc::run_apart("parsing", [source = std::string(text)] {
      tc::lang::Module module = tc::lang::parse(source);
      for (const auto& definition : module.definitions) tc::lang::refuse_recurrences(*definition);
      return module;
    });
    handle->warnings = parsed.warnings;
    for (const auto& definition : parsed.definitions) handle->definitions.push_back({definition});
    return handle.release();
  });
}

void tc_module_free(tc_module* module) { delete module; }

int32_t tc_module_size(const tc_module* module) {
  return value_or_zero([&] { return count_of(required(module, "module").definitions); });
}

const tc_definition* tc_module_definition(const tc_module* module, int32_t index) {
  return value_or_zero(
      [&] { return &at(required(module, "module").definitions, index, "definition"); });
}

tc_status tc_module_find(const tc_module* module, const char* name,
                         const tc_definition** definition) {
  return give(definition, "definition", [&]() -> const tc_definition* {
    required(module, "module");
    required(name, "name");
    std::string known;
    for (const auto& entry : module->definitions) {
      if (entry.definition->name == name) return &entry;
      known += (known.empty() ? "" : ", ") + entry.definition->name;
    }
    throw tc::UsageError("attempting to access undefined function ", name,
                         "; the text defines: ", known);
  });
}

int32_t tc_module_warning_count(const tc_module* module) {
  return value_or_zero([&] { return count_of(required(module, "module").warnings); });
}

const char* tc_module_warning(const tc_module* module, int32_t index) {
  return value_or_zero(
      [&] { return at(required(module, "module").warnings, index, "warning").c_str(); });
}

const char* tc_definition_name(const tc_definition* definition) {
  return value_or_zero([&] { return definition_of(definition).name.c_str(); });
}
const char* tc_definition_text(const tc_definition* definition) {
  return value_or_zero([&] { return definition_of(definition).text.c_str(); });
}
const char* tc_definition_key(const tc_definition* definition) {
  return value_or_zero([&] { return definition_of(definition).key.c_str(); });
}
int32_t tc_definition_input_count(const tc_definition* definition) {
  return value_or_zero([&] { return count_of(definition_of(definition).signature.parameters); });
}
int32_t tc_definition_output_count(const tc_definition* definition) {
  return value_or_zero([&] { return count_of(definition_of(definition).signature.outputs); });
}

tc_status tc_definition_input(const tc_definition* definition, int32_t index,
                              tc_argument* argument) {
  return give(argument, "argument", [&] {
    const tc::lang::Definition& d = definition_of(definition);
    const tc::ir::Parameter& parameter = at(d.signature.parameters, index, "input");
    tc_argument result = {};
    result.follows = -1;
    if (parameter.scalar) {
      const tc::ir::Scalar& scalar = d.signature.scalars.at(parameter.name);
      result.name = scalar.name.c_str();
      result.dtype = tc::ir::to_dlpack(scalar.type);
      result.is_scalar = 1;
      result.read = 1;
      result.specialized = scalar.specialized;
    } else {
      const tc::ir::Tensor& tensor = d.signature.tensor(parameter.name);
      result.name = tensor.name.c_str();
      result.dtype = tc::ir::to_dlpack(tensor.type);
      result.ndim = count_of(tensor.sizes);
      result.read = tc::lang::elements_read(*d.tree, parameter.name);
    }
    return result;
  });
}

tc_status tc_definition_output(const tc_definition* definition, int32_t index,
                               tc_argument* argument) {
  return give(argument, "argument", [&] {
    const tc::lang::Definition& d = definition_of(definition);
    const tc::ir::Tensor& tensor = d.signature.tensor(at(d.signature.outputs, index, "output"));
    tc_argument result = {};
    result.name = tensor.name.c_str();
    result.dtype = tc::ir::to_dlpack(tensor.type);
    result.ndim = count_of(tensor.sizes);
    result.accumulates = tensor.role == tc::ir::TensorRole::InOut;
    result.follows = find_parameter(d.signature, tc::lang::laid_out_like(*d.tree, tensor.name));
    return result;
  });
}

tc_status tc_definition_input_dimension(const tc_definition* definition, int32_t index,
                                        int32_t dimension, const char** text) {
  return give_text(text, "text", [&] {
    const tc::ir::Program& signature = definition_of(definition).signature;
    const tc::ir::Parameter& parameter = at(signature.parameters, index, "input");
    size_t rank = parameter.scalar ? 0 : signature.tensor(parameter.name).sizes.size();
    check_index(dimension, rank, "dimension");
    return tc::runtime::size_text(signature.tensor(parameter.name).sizes[dimension]);
  });
}

tc_status tc_infer_sizes(const tc_definition* definition, const DLTensor* const* inputs,
                         int32_t input_count, int64_t* sizes, int32_t size_count) {
  return guarded([&] {
    const tc::lang::Definition& d = definition_of(definition);
    check_array(sizes, "sizes", size_count, "size_count");
    tc::ir::Program program;
    tc::run_short([&] {
      program = tc::runtime::specialize(d, tc::runtime::check_inputs(d, inputs, input_count));
    });
    int32_t written = 0;
    for (const std::string& name : program.outputs)
      for (const tc::ir::Expr& size : program.tensor(name).sizes) {
        if (written == size_count)
          throw tc::UsageError("size_count is ", size_count, ", but the outputs of ", d.name,
                               " have more dimensions; pass a larger array");
        sizes[written++] = *Halide::Internal::as_const_int(size);
      }
  });
}

tc_status tc_output_size_expression(const tc_definition* definition, const DLTensor* const* inputs,
                                    int32_t input_count, int32_t output, int32_t dimension,
                                    const char** text) {
  return give_text(text, "text", [&] {
    tc::ir::Program program = infer_ranges(definition_of(definition), inputs, input_count);
    const tc::ir::Tensor& tensor = program.tensor(at(program.outputs, output, "output"));
    return tc::runtime::size_text(at(tensor.sizes, dimension, "dimension"));
  });
}

tc_status tc_size_condition(const tc_definition* definition, const DLTensor* const* inputs,
                            int32_t input_count, int32_t index, const char** found,
                            const char** wanted, const char** message) {
  clear(found, wanted, message);
  return guarded([&] {
    const tc::lang::Definition& d = definition_of(definition);
    required(found, "found");
    required(wanted, "wanted");
    required(message, "message");
    tc::ir::Program program = infer_ranges(d, inputs, input_count);
    size_t count = program.declared_sizes.size();
    if (index >= 0 && static_cast<size_t>(index) >= count) return;
    check_index(index, count, "condition");
    const tc::ir::DeclaredSize& declared = program.declared_sizes[index];
    thread_local std::string kept[3];
    kept[0] = tc::runtime::size_text(program.tensor(declared.tensor).sizes[declared.dimension]);
    kept[1] = tc::runtime::size_text(declared.value);
    kept[2] = tc::runtime::mismatch(program, declared);
    *found = kept[0].c_str();
    *wanted = kept[1].c_str();
    *message = kept[2].c_str();
  });
}

tc_status tc_definition_gradient(const tc_definition* definition, const DLTensor* const* inputs,
                                 int32_t input_count, const int32_t* wanted, const int32_t* given,
                                 const char** text) {
  return give_text(text, "text", [&] {
    const tc::lang::Definition& d = definition_of(definition);
    tc::lang::GradientRequest request;
    request.inputs = flagged(input_names(d), wanted, "wanted");
    request.outputs = flagged(d.signature.outputs, given, "given");
    request.scalars = tc::runtime::scalar_values(d, inputs, input_count);
    return write_apart("deriving ", definition, tc::lang::gradient_text, request);
  });
}

tc_status tc_definition_keeping(const tc_definition* definition, const DLTensor* const* inputs,
                                int32_t input_count, const char** text) {
  return give_text(text, "text", [&] {
    const tc::lang::Definition& d = definition_of(definition);
    const std::vector<std::string> names = input_names(d), &outputs = d.signature.outputs;
    const tc::lang::GradientRequest request{{names.begin(), names.end()},
                                            {outputs.begin(), outputs.end()},
                                            tc::runtime::scalar_values(d, inputs, input_count)};
    return write_apart("deriving ", definition, tc::lang::keeping_text, request);
  });
}

tc_status tc_definition_batch(const tc_definition* definition, const int32_t* batched,
                              const char** text) {
  return give_text(text, "text", [&] {
    return write_apart("batching ", definition, tc::lang::batch_text,
                       flagged(input_names(definition_of(definition)), batched, "batched"));
  });
}

tc_status tc_definition_tensors(const tc_definition* definition, const int32_t* tensors,
                                const char** text) {
  return give_text(text, "text", [&] {
    return write_apart("writing ", definition, tc::lang::scalar_tensors_text,
                       flagged(input_names(definition_of(definition)), tensors, "tensors"));
  });
}

tc_status tc_definition_shardings(const tc_definition* definition, tc_placement* placements,
                                  int32_t capacity, int32_t* count) {
  clear(count);
  return guarded([&] {
    const tc::lang::Definition& d = definition_of(definition);
    required(count, "count");
    check_array(placements, "placements", capacity, "capacity");
    std::vector<tc_placement> all;
    auto add = [&](const std::vector<tc::lang::Placement>& list) {
      for (const tc::lang::Placement& placement : list)
        all.push_back({placement.dimension, collective_name(placement.partial)});
    };
    std::vector<tc::lang::Sharding> found;
    tc::run_short([&] { found = tc::lang::shardings(d); });
    for (const tc::lang::Sharding& sharding : found) {
      add(sharding.inputs);
      add(sharding.outputs);
    }
    give_list(all, placements, capacity, count);
  });
}

tc_status tc_definition_sized(const tc_definition* definition, const char** text,
                              tc_input_dimension* sizes, int32_t capacity, int32_t* count) {
  clear(text, count);
  return guarded([&] {
    const tc::lang::Definition& d = definition_of(definition);
    required(text, "text");
    required(count, "count");
    check_array(sizes, "sizes", capacity, "capacity");
    tc::lang::SizesAsParameters sized;
    tc::run_short([&] { sized = tc::lang::sizes_as_parameters(d); });
    std::vector<tc_input_dimension> places;
    for (const auto& [input, dimension] : sized.sizes) places.push_back({input, dimension});
    thread_local std::string kept;
    kept = std::move(sized.text);
    *text = kept.c_str();
    give_list(places, sizes, capacity, count);
  });
}

tc_status tc_format(const char* text, const char** formatted) {
  return give_text(formatted, "formatted", [&] {
    return tc::run_apart("formatting", [source = std::string(&required(text, "text"))] {
      return tc::lang::format(source);
    });
  });
}
