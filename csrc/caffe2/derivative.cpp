#include "caffe2/derivative.h"

#include <algorithm>
#include <utility>

#include "caffe2/errors.h"

namespace tc_caffe2 {
namespace {

using tensor_comprehensions::Module;

bool is_floating(DLDataType type) { return type.code == kDLFloat || type.code == kDLBfloat; }

/// The input that a result of a derivative is the gradient of: "d_I_1" is that of I_1, or where
/// there is none of I.
int input_of(const std::string& result, const Definition& forward) {
  for (const std::string& name : {result.substr(2), result.substr(2, result.rfind('_') - 2)})
    for (int32_t k = 0; k < forward.input_count(); ++k)
      if (forward.input(k).name == name) return k;
  throw tensor_comprehensions::UsageError(TC_INTERNAL_ERROR,
                                          result + " is the gradient of no input");
}

std::vector<int32_t> flags(int32_t count, const std::vector<int>& set) {
  // One more, so that there is an array where nothing is flagged.
  std::vector<int32_t> result(static_cast<size_t>(count) + 1, 0);
  for (int k : set) result.at(static_cast<size_t>(k)) = 1;
  return result;
}

/// Empty where no wanted input is reached.
std::string derive(const Definition& forward, const Tensors& inputs, const std::vector<int>& given,
                   const std::vector<int>& wanted) {
  const tensor_comprehensions::detail::Arguments arguments(inputs);
  return tensor_comprehensions::detail::ask<const char*>(
      tc_definition_gradient, forward.get(), arguments.data(), arguments.size(),
      flags(forward.input_count(), wanted).data(), flags(forward.output_count(), given).data());
}

/// The forward outputs that a derivative reads, by its parameters between those of the inputs and
/// the `gradients` at the end.
std::vector<int> read_outputs(const Definition& forward, const Definition& derivative,
                              size_t gradients) {
  std::vector<int> result;
  const int32_t end = derivative.input_count() - static_cast<int32_t>(gradients);
  for (int32_t k = forward.input_count(); k < end; ++k)
    for (int32_t o = 0; o < forward.output_count(); ++o)
      if (std::string(forward.output(o).name) == derivative.input(k).name) result.push_back(o);
  return result;
}

/// The forward inputs whose gradients a derivative gives, in its order.
std::vector<int> reached_inputs(const Definition& forward, const Definition& derivative) {
  std::vector<int> result;
  for (int32_t k = 0; k < derivative.output_count(); ++k)
    result.push_back(input_of(derivative.output(k).name, forward));
  return result;
}

std::string name_list(const Definition& forward, const std::vector<int>& inputs) {
  std::string list;
  for (int input : inputs)
    list += (list.empty() ? "" : ", ") + std::string(forward.input(input).name);
  return list.empty() ? "none" : list;
}

}  // namespace

Derivative::Derivative(SourcePtr forward, std::vector<int> outputs,
                       std::vector<int> output_gradients, std::vector<int> input_gradients)
    : forward_(std::move(forward)),
      outputs_(std::move(outputs)),
      output_gradients_(std::move(output_gradients)),
      input_gradients_(std::move(input_gradients)) {
  Definition described = forward_->definition({});
  auto check = [](const std::vector<int>& list, int32_t count, const char* what) {
    for (int k : list)
      if (k < 0 || k >= count)
        usage_error(what, " has ", k, ", but there are only 0 to ", count - 1);
  };
  const auto inputs = described.input_count() - static_cast<int32_t>(forward_->numbers.size());
  check(outputs_, described.output_count(), "outputs_used_by_gradient");
  check(output_gradients_, described.output_count(), "output_gradients_used_by_gradient");
  check(input_gradients_, inputs, "inputs_to_compute_gradients_of");
}

std::vector<Given> Derivative::forward_inputs(const std::vector<Given>& inputs) const {
  const auto count =
      inputs.size() - std::min(inputs.size(), outputs_.size() + output_gradients_.size());
  return {inputs.begin(), inputs.begin() + static_cast<int64_t>(count)};
}

Definition Derivative::definition(const std::vector<Given>& inputs) const {
  std::vector<Given> given = forward_inputs(inputs);
  Definition forward = forward_->definition(given);
  std::vector<Parameter> parameters = forward_->parameters(forward, given);
  std::string text =
      derive(forward, to_tensors(parameters, given), output_gradients_, input_gradients_);
  std::vector<int> reached;
  if (!text.empty()) {
    Definition result = Module(text).definition(0);
    reached = reached_inputs(forward, result);
    if (reached == input_gradients_) return result;
  }
  usage_error("the gradients of ", name_list(forward, input_gradients_),
              " were asked for, but the results depend on ", name_list(forward, reached),
              " of them: say by inputs_to_compute_gradients_of which inputs are meant");
}

std::vector<Parameter> Derivative::parameters(const Definition& definition,
                                              const std::vector<Given>& inputs) const {
  std::vector<Given> given = forward_inputs(inputs);
  Definition forward = forward_->definition(given);
  std::vector<Parameter> result = forward_->parameters(forward, given);
  const size_t gradients_begin = given.size() + outputs_.size();
  auto add = [&](size_t input, int output) {
    Sizes sizes = forward_->output_view(static_cast<size_t>(output), inputs[input].sizes);
    if (sizes.empty()) sizes = {1};  // a derivative has no tensors without dimensions
    result.push_back({static_cast<int32_t>(input), 0, std::move(sizes)});
  };
  for (int output : read_outputs(forward, definition, output_gradients_.size())) {
    auto place = std::find(outputs_.begin(), outputs_.end(), output);
    if (place == outputs_.end())
      usage_error("the derivative needs the values of ", forward.output(output).name,
                  ", which outputs_used_by_gradient leaves out: it is output ", output);
    add(given.size() + static_cast<size_t>(place - outputs_.begin()), output);
  }
  for (size_t k = 0; k < output_gradients_.size(); ++k)
    add(gradients_begin + k, output_gradients_[k]);
  return result;
}

Sizes Derivative::output_sizes(size_t output, const Sizes&,
                               const std::vector<Given>& inputs) const {
  return inputs.at(static_cast<size_t>(input_gradients_[output])).sizes;
}

std::vector<int> differentiable_inputs(const Definition& definition) {
  std::vector<int> result;
  for (int32_t k = 0; k < definition.input_count(); ++k) {
    tc_argument input = definition.input(k);
    if (is_floating(input.dtype) && !input.is_scalar) result.push_back(k);
  }
  return result;
}

DerivativeShape derivative_shape(const Source& forward, const std::vector<int>& output_gradients,
                                 const std::vector<int>& input_gradients) {
  Definition definition = forward.definition({});
  const auto inputs = definition.input_count() - static_cast<int32_t>(forward.numbers.size());
  if (!forward.deciding_inputs().empty()) {
    DerivativeShape all{{}, input_gradients};
    for (int32_t o = 0; o < definition.output_count(); ++o) all.outputs.push_back(o);
    return all;
  }
  std::vector<Parameter> parameters;
  std::vector<Given> given(static_cast<size_t>(inputs));
  for (int32_t k = 0; k < inputs; ++k) parameters.push_back({k, 0, {}});
  for (int32_t number : forward.numbers) parameters.push_back({-1, number, {}});
  std::string text =
      derive(definition, to_tensors(parameters, given), output_gradients, input_gradients);
  if (text.empty()) return {};
  Definition derivative = Module(text).definition(0);
  return {read_outputs(definition, derivative, output_gradients.size()),
          reached_inputs(definition, derivative)};
}

}  // namespace tc_caffe2
