#include "caffe2/source.h"

#include <functional>
#include <numeric>

#include "caffe2/errors.h"

namespace tc_caffe2 {
namespace {

using tensor_comprehensions::Module;

int64_t count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

std::string names(const Module& module) {
  std::string list;
  for (int32_t k = 0; k < module.size(); ++k) list += (k ? ", " : "") + module.definition(k).name();
  return list;
}

Definition find(const std::string& text, const std::string& name, const std::string& argument,
                const std::string& name_argument) {
  Module module(text);
  if (!name.empty()) return module[name];
  if (module.size() == 1) return module.definition(0);
  usage_error(argument, " has ", module.size(), " definitions (", names(module),
              "): say by the argument ", name_argument, " which one is meant");
}

}  // namespace

std::vector<Parameter> Source::parameters(const Definition& definition,
                                          const std::vector<Given>& inputs) const {
  size_t expected = static_cast<size_t>(definition.input_count()) - numbers.size();
  if (inputs.size() != expected)
    shape_error(definition.name(), " expected ", expected, expected == 1 ? " input" : " inputs",
                " but found ", inputs.size());
  std::vector<Parameter> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Parameter parameter{static_cast<int32_t>(i), 0, input_view(i, inputs[i].sizes)};
    // Blobs have no scalars: one element is one.
    if (definition.input(static_cast<int32_t>(i)).is_scalar && count(parameter.sizes) == 1)
      parameter.sizes.clear();
    result.push_back(std::move(parameter));
  }
  for (int32_t number : numbers) result.push_back({-1, number, {}});
  return result;
}

Tensors to_tensors(const std::vector<Parameter>& parameters, const std::vector<Given>& inputs) {
  Tensors result;
  for (const Parameter& parameter : parameters) {
    if (parameter.input < 0) {
      result.emplace_back(&parameter.number, parameter.sizes);
      continue;
    }
    const Given& given = inputs[static_cast<size_t>(parameter.input)];
    result.emplace_back(const_cast<void*>(given.data), given.dtype, parameter.sizes);
  }
  return result;
}

void check_output_count(const Definition& definition, int count) {
  if (definition.output_count() != count)
    shape_error(definition.name(), " gives ", definition.output_count(),
                " outputs but the operator has ", count);
}

TextSource::TextSource(const std::string& text, const std::string& name,
                       const std::string& argument, const std::string& name_argument)
    : definition_(find(text, name, argument, name_argument)) {}

std::vector<size_t> TextSource::deciding_inputs() const {
  std::vector<size_t> result;
  for (int32_t k = 0; k < definition_.input_count(); ++k)
    if (definition_.input(k).specialized) result.push_back(static_cast<size_t>(k));
  return result;
}

}  // namespace tc_caffe2
