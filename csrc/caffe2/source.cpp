#include "caffe2/source.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tc_caffe2 {
namespace {

using tensor_comprehensions::Module;
using tensor_comprehensions::UsageError;

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
  throw UsageError(TC_USAGE_ERROR, argument + " has " + std::to_string(module.size()) +
                                       " definitions (" + names(module) +
                                       "): say by the argument " + name_argument +
                                       " which one is meant");
}

}  // namespace

std::vector<Parameter> Source::parameters(const Definition& definition,
                                          const std::vector<Given>& inputs) const {
  size_t expected = static_cast<size_t>(definition.input_count()) - numbers.size();
  if (inputs.size() != expected)
    throw tensor_comprehensions::ShapeError(
        TC_SHAPE_ERROR, definition.name() + " expected " + std::to_string(expected) +
                            (expected == 1 ? " input" : " inputs") + " but found " +
                            std::to_string(inputs.size()));
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

DLTensors::DLTensors(const Definition& definition, const std::vector<Parameter>& parameters,
                     const std::vector<Given>& inputs) {
  tensors_.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    DLTensor tensor{};
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(parameter.sizes.size());
    tensor.shape = const_cast<int64_t*>(parameter.sizes.data());
    if (parameter.input >= 0) {
      const Given& given = inputs[static_cast<size_t>(parameter.input)];
      tensor.dtype = given.dtype;
      tensor.data = const_cast<void*>(given.data);
    } else {
      tensor.dtype = {kDLInt, 32, 1};
      tensor.data = const_cast<int32_t*>(&parameter.number);
    }
    tensors_.push_back(tensor);
    pointers_.push_back(&tensors_.back());
  }
}

std::vector<Sizes> infer_sizes(const Definition& definition, const DLTensors& tensors) {
  std::vector<Sizes> result;
  size_t total = 0;
  for (int32_t o = 0; o < definition.output_count(); ++o) {
    result.emplace_back(definition.output(o).ndim);
    total += result.back().size();
  }
  Sizes flat(total);
  tensor_comprehensions::check(tc_infer_sizes(definition.get(), tensors.data(), tensors.size(),
                                              flat.data(), static_cast<int32_t>(total)));
  auto next = flat.begin();
  for (Sizes& sizes : result)
    for (int64_t& size : sizes) size = *next++;
  return result;
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
