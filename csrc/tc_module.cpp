// The C interface: texts and definitions.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api_error.h"
#include "api_handles.h"
#include "lang/batch.h"
#include "lang/definition.h"
#include "lang/formatter.h"
#include "lang/gradient.h"
#include "lang/kept_values.h"
#include "lang/recurrences.h"
#include "lang/roles.h"
#include "lang/sharding.h"
#include "lang/size_parameters.h"
#include "runtime/arguments.h"
#include "runtime/size_text.h"

namespace {

using tc::api::guarded;
using tc::api::required;

void check_index(int32_t index, size_t count, const char* what) {
  if (index < 0 || static_cast<size_t>(index) >= count)
    throw tc::UsageError(tc::concat(what, " ", index, " does not exist: there are ", count));
}

int32_t flag(bool value) { return value ? 1 : 0; }

/// The place of a parameter; -1 where there is none of that name.
int32_t find_parameter(const tc::ir::Program& signature, const std::string& name) {
  for (size_t k = 0; k < signature.parameters.size(); ++k)
    if (signature.parameters[k].name == name) return static_cast<int32_t>(k);
  return -1;
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
  return guarded([&] {
    required(text, "text");
    required(module, "module") = nullptr;
    auto handle = std::make_unique<tc_module>();
    tc::lang::Module parsed = tc::lang::parse(text);
    handle->warnings = parsed.warnings;
    for (const auto& definition : parsed.definitions) {
      tc::lang::refuse_recurrences(*definition);
      auto entry = std::make_unique<tc_definition>();
      entry->definition = definition;
      handle->definitions.push_back(std::move(entry));
    }
    *module = handle.release();
  });
}

void tc_module_free(tc_module* module) { delete module; }

int32_t tc_module_size(const tc_module* module) {
  return module ? static_cast<int32_t>(module->definitions.size()) : 0;
}

const tc_definition* tc_module_definition(const tc_module* module, int32_t index) {
  if (!module || index < 0 || static_cast<size_t>(index) >= module->definitions.size())
    return nullptr;
  return module->definitions[index].get();
}

tc_status tc_module_find(const tc_module* module, const char* name,
                         const tc_definition** definition) {
  return guarded([&] {
    required(name, "name");
    required(definition, "definition") = nullptr;
    std::string known;
    for (const auto& entry : required(module, "module").definitions) {
      if (entry->definition->name == name) {
        *definition = entry.get();
        return;
      }
      known += (known.empty() ? "" : ", ") + entry->definition->name;
    }
    throw tc::UsageError(tc::concat("attempting to access undefined function ", name,
                                    "; the text defines: ", known));
  });
}

int32_t tc_module_warning_count(const tc_module* module) {
  return module ? static_cast<int32_t>(module->warnings.size()) : 0;
}

const char* tc_module_warning(const tc_module* module, int32_t index) {
  if (!module || index < 0 || static_cast<size_t>(index) >= module->warnings.size()) return nullptr;
  return module->warnings[index].c_str();
}

const char* tc_definition_name(const tc_definition* definition) {
  return definition->definition->name.c_str();
}
const char* tc_definition_text(const tc_definition* definition) {
  return definition->definition->text.c_str();
}
const char* tc_definition_key(const tc_definition* definition) {
  return definition->definition->key.c_str();
}
int32_t tc_definition_input_count(const tc_definition* definition) {
  return static_cast<int32_t>(definition->definition->signature.parameters.size());
}
int32_t tc_definition_output_count(const tc_definition* definition) {
  return static_cast<int32_t>(definition->definition->signature.outputs.size());
}

tc_status tc_definition_input(const tc_definition* definition, int32_t index,
                              tc_argument* argument) {
  return guarded([&] {
    const tc::ir::Program& signature = required(definition, "definition").definition->signature;
    check_index(index, signature.parameters.size(), "input");
    const tc::ir::Parameter& parameter = signature.parameters[index];
    tc_argument& result = required(argument, "argument");
    result = {};
    result.follows = -1;
    if (parameter.scalar) {
      const tc::ir::Scalar& scalar = signature.scalars.at(parameter.name);
      result.name = scalar.name.c_str();
      result.dtype = tc::runtime::to_dlpack(scalar.type);
      result.is_scalar = 1;
      result.read = 1;
      result.specialized = flag(scalar.specialized);
    } else {
      const tc::ir::Tensor& tensor = signature.tensor(parameter.name);
      result.name = tensor.name.c_str();
      result.dtype = tc::runtime::to_dlpack(tensor.type);
      result.ndim = static_cast<int32_t>(tensor.sizes.size());
      result.read = flag(tc::lang::elements_read(*definition->definition->tree, parameter.name));
    }
  });
}

tc_status tc_definition_output(const tc_definition* definition, int32_t index,
                               tc_argument* argument) {
  return guarded([&] {
    const tc::ir::Program& signature = required(definition, "definition").definition->signature;
    check_index(index, signature.outputs.size(), "output");
    const tc::ir::Tensor& tensor = signature.tensor(signature.outputs[index]);
    tc_argument& result = required(argument, "argument");
    result = {};
    result.name = tensor.name.c_str();
    result.dtype = tc::runtime::to_dlpack(tensor.type);
    result.ndim = static_cast<int32_t>(tensor.sizes.size());
    result.accumulates = flag(tensor.role == tc::ir::TensorRole::InOut);
    const tc::lang::Function& tree = *definition->definition->tree;
    result.follows = find_parameter(signature, tc::lang::laid_out_like(tree, tensor.name));
  });
}

tc_status tc_definition_input_dimension(const tc_definition* definition, int32_t index,
                                        int32_t dimension, const char** text) {
  return guarded([&] {
    const tc::ir::Program& signature = required(definition, "definition").definition->signature;
    check_index(index, signature.parameters.size(), "input");
    const tc::ir::Parameter& parameter = signature.parameters[index];
    size_t rank = parameter.scalar ? 0 : signature.tensor(parameter.name).sizes.size();
    check_index(dimension, rank, "dimension");
    thread_local std::string kept;
    kept = tc::runtime::size_text(signature.tensor(parameter.name).sizes[dimension]);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_infer_sizes(const tc_definition* definition, const DLTensor* const* inputs,
                         int32_t input_count, int64_t* sizes, int32_t size_count) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    tc::ir::Program program =
        tc::runtime::specialize(d, tc::runtime::check_inputs(d, inputs, input_count));
    int32_t written = 0;
    for (const std::string& name : program.outputs)
      for (const tc::ir::Expr& size : program.tensor(name).sizes) {
        if (written == size_count)
          throw tc::UsageError(tc::concat("the outputs of ", d.name, " have more than ", size_count,
                                          " dimensions; pass a larger array"));
        sizes[written++] = *Halide::Internal::as_const_int(size);
      }
  });
}

tc_status tc_output_size_expression(const tc_definition* definition, const DLTensor* const* inputs,
                                    int32_t input_count, int32_t output, int32_t dimension,
                                    const char** text) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    tc::ir::Program program =
        tc::lang::infer_ranges(d, tc::runtime::scalar_values(d, inputs, input_count));
    check_index(output, program.outputs.size(), "output");
    const tc::ir::Tensor& tensor = program.tensor(program.outputs[output]);
    check_index(dimension, tensor.sizes.size(), "dimension");
    thread_local std::string kept;
    kept = tc::runtime::size_text(tensor.sizes[dimension]);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_size_condition(const tc_definition* definition, const DLTensor* const* inputs,
                            int32_t input_count, int32_t index, const char** found,
                            const char** wanted, const char** message) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    tc::ir::Program program =
        tc::lang::infer_ranges(d, tc::runtime::scalar_values(d, inputs, input_count));
    required(found, "found") = required(wanted, "wanted") = required(message, "message") = nullptr;
    if (index < 0 || index >= static_cast<int32_t>(program.declared_sizes.size())) return;
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
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    required(wanted, "wanted");
    required(given, "given");
    tc::lang::GradientRequest request;
    request.scalars = tc::runtime::scalar_values(d, inputs, input_count);
    for (size_t k = 0; k < d.signature.parameters.size(); ++k) {
      if (wanted[k]) request.inputs.insert(d.signature.parameters[k].name);
    }
    for (size_t k = 0; k < d.signature.outputs.size(); ++k) {
      if (given[k]) request.outputs.insert(d.signature.outputs[k]);
    }
    thread_local std::string kept;
    kept = tc::lang::gradient_text(d, request);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_definition_keeping(const tc_definition* definition, const DLTensor* const* inputs,
                                int32_t input_count, const char** text) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    tc::lang::GradientRequest request;
    request.scalars = tc::runtime::scalar_values(d, inputs, input_count);
    for (const tc::ir::Parameter& parameter : d.signature.parameters)
      request.inputs.insert(parameter.name);
    request.outputs.insert(d.signature.outputs.begin(), d.signature.outputs.end());
    thread_local std::string kept;
    kept = tc::lang::keeping_text(d, request);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_definition_batch(const tc_definition* definition, const int32_t* batched,
                              const char** text) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    required(batched, "batched");
    std::set<std::string> inputs;
    for (size_t k = 0; k < d.signature.parameters.size(); ++k)
      if (batched[k]) inputs.insert(d.signature.parameters[k].name);
    thread_local std::string kept;
    kept = tc::lang::batch_text(d, inputs);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_definition_shardings(const tc_definition* definition, tc_placement* placements,
                                  int32_t capacity, int32_t* count) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    int32_t& written = required(count, "count") = 0;
    auto write = [&](const std::vector<tc::lang::Placement>& list) {
      for (const tc::lang::Placement& placement : list) {
        if (written < capacity)
          placements[written] = {placement.dimension, collective_name(placement.partial)};
        ++written;
      }
    };
    for (const tc::lang::Sharding& sharding : tc::lang::shardings(d)) {
      write(sharding.inputs);
      write(sharding.outputs);
    }
  });
}

tc_status tc_definition_sized(const tc_definition* definition, const char** text,
                              tc_input_dimension* sizes, int32_t capacity, int32_t* count) {
  return guarded([&] {
    const tc::lang::Definition& d = *required(definition, "definition").definition;
    tc::lang::SizesAsParameters sized = tc::lang::sizes_as_parameters(d);
    int32_t& written = required(count, "count") = 0;
    for (const tc::lang::SizesAsParameters::Size& size : sized.sizes) {
      if (written < capacity) sizes[written] = {size.input, size.dimension};
      ++written;
    }
    thread_local std::string kept;
    kept = std::move(sized.text);
    required(text, "text") = kept.c_str();
  });
}

tc_status tc_format(const char* text, const char** formatted) {
  return guarded([&] {
    required(text, "text");
    thread_local std::string kept;
    kept = tc::lang::format(text);
    required(formatted, "formatted") = kept.c_str();
  });
}
