#include "caffe2/operator.h"

#include <algorithm>
#include <cstring>

#include "caffe2/arguments.h"
#include "caffe2/errors.h"
#include "caffe2/host.h"
#include "caffe2/libraries.h"
#include "caffe2/make_source.h"
#include "caffe2/types.h"

namespace tc_caffe2 {
namespace {

// Kernels that an operator finds without a look at those of the process: batches of a net come in
// few sizes, of which the last of an epoch is one.
constexpr size_t kAtHand = 8;

int64_t scalar_value(const void* data, DLDataType type) {
  auto load = [&](auto value) {
    std::memcpy(&value, data, sizeof value);
    return static_cast<int64_t>(value);
  };
  if (type.code == kDLUInt) return type.bits == 8 ? load(uint8_t{}) : load(uint16_t{});
  switch (type.bits) {
    case 8: return load(int8_t{});
    case 16: return load(int16_t{});
    case 32: return load(int32_t{});
    default: return load(int64_t{});
  }
}

/// What an operator is, but for its blobs, as one string.
std::string identify(const caffe2::OperatorDef& definition) {
  std::string result = definition.type() + '\n' + std::to_string(definition.output_size());
  auto add = [&](const std::string& text) {
    result += '\n' + std::to_string(text.size()) + ':' + text;
  };
  for (const caffe2::Argument& argument : definition.arg()) {
    add(argument.name());
    add(argument.s());
    add(std::to_string(argument.i()));
    add(std::to_string(argument.f()));
    for (int64_t value : argument.ints()) add(std::to_string(value));
  }
  return result;
}

}  // namespace

TcOperator::TcOperator(const caffe2::OperatorDef& definition, caffe2::Workspace* workspace)
    : Operator(definition, workspace),
      source_(as_caffe2(definition.type(), [&] { return make_source(Arguments(definition)); })),
      scheduling_(as_caffe2(definition.type(),
                            [&] {
                              Arguments arguments(definition);
                              return Scheduling(arguments, is_backward(arguments));
                            })),
      identity_(identify(definition) + scheduling_.identity()),
      decides_(static_cast<size_t>(definition.input_size()), false),
      check_sizes_(Arguments(definition).integer("checkSizes", 0) != 0) {
  for (size_t input : source_->deciding_inputs())
    if (input < decides_.size()) decides_[input] = true;
  use_libraries();
}

int64_t TcOperator::value(size_t input) {
  if (!decides_[input]) return 0;
  const caffe2::Tensor& tensor = Input(static_cast<int>(input));
  if (tensor.numel() != 1) return 0;  // the core says what is wrong
  return scalar_value(tensor.raw_data(), to_dlpack(tensor.dtype(), "a scalar"));
}

bool TcOperator::matches(const Compiled& candidate) {
  for (size_t i = 0; i < candidate.inputs.size(); ++i) {
    const Compiled::Input& wanted = candidate.inputs[i];
    const caffe2::Tensor& input = Input(static_cast<int>(i));
    auto sizes = input.sizes();
    if (input.dtype() != wanted.type || sizes.size() != wanted.sizes.size() ||
        !std::equal(sizes.begin(), sizes.end(), wanted.sizes.begin()) || value(i) != wanted.value)
      return false;
  }
  return true;
}

const Compiled& TcOperator::find() {
  auto found = std::find_if(known_.begin(), known_.end(),
                            [&](const CompiledPtr& each) { return matches(*each); });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return *known_.front();
  }
  std::string key = identity_;
  for (int i = 0; i < InputSize(); ++i) {
    const caffe2::Tensor& input = Input(i);
    if (!input.dtype_initialized())
      shape_error("input ", i, " has no element type: nothing was written to it");
    key += c10::str("\n", input.dtype().name(), input.sizes(), value(static_cast<size_t>(i)));
  }
  known_.push_front(Kernels::all().find(key, [&] { return compile(); }));
  if (known_.size() > kAtHand) known_.pop_back();
  return *known_.front();
}

CompiledPtr TcOperator::compile() {
  std::vector<Given> inputs(static_cast<size_t>(InputSize()));
  for (int i = 0; i < InputSize(); ++i) {
    const caffe2::Tensor& input = Input(i);
    Given& given = inputs[static_cast<size_t>(i)];
    given.dtype = to_dlpack(input.dtype(), "input " + std::to_string(i));
    given.sizes = input.sizes().vec();
    given.data = input.raw_data();
  }
  const Definition definition = source_->definition(inputs);
  check_output_count(definition, OutputSize());
  auto result = std::make_shared<Compiled>();
  result->parameters = source_->parameters(definition, inputs);
  const Tensors tensors = to_tensors(result->parameters, inputs);
  const std::vector<Sizes> sizes = definition.infer_sizes(tensors);
  const auto options = scheduling_.options(definition);
  result->kernel =
      tensor_comprehensions::compile(definition, tensors, options ? &*options : nullptr);

  for (size_t i = 0; i < inputs.size(); ++i)
    result->inputs.push_back({Input(static_cast<int>(i)).dtype(), inputs[i].sizes, value(i)});
  for (const auto& tensor : tensors) result->parameter_types.push_back(tensor.dlpack().dtype);
  for (size_t o = 0; o < sizes.size(); ++o) {
    const tc_argument output = definition.output(static_cast<int32_t>(o));
    result->outputs.push_back({to_caffe2(output.dtype), source_->output_sizes(o, sizes[o], inputs),
                               sizes[o], output.dtype, output.accumulates != 0});
  }
  return result;
}

void* TcOperator::prepare(int index, const Compiled::Output& output) {
  if (output.accumulates) {
    const caffe2::Blob* blob = OutputBlob(index);
    const bool fits = caffe2::BlobIsTensorType(*blob, caffe2::CPU) &&
                      blob->Get<caffe2::Tensor>().dtype() == output.type &&
                      blob->Get<caffe2::Tensor>().sizes() == at::IntArrayRef(output.sizes);
    if (!fits)
      shape_error("output ", index,
                  " is added to, so that it has to hold values: a tensor of sizes ",
                  at::IntArrayRef(output.sizes), " and type ", output.type.name(),
                  "; fill it before the net runs");
  }
  return Output(index, output.sizes, at::dtype(output.type))->raw_mutable_data(output.type);
}

void TcOperator::run_checked(const Compiled& compiled) {
  Tensors inputs, outputs;
  auto pointer = pointers_.begin();
  for (size_t p = 0; p < compiled.parameters.size(); ++p)
    inputs.emplace_back(*pointer++, compiled.parameter_types[p], compiled.parameters[p].sizes);
  for (const Compiled::Output& output : compiled.outputs)
    outputs.emplace_back(*pointer++, output.dtype, output.view);
  compiled.kernel.run(inputs, outputs, &caffe2_host());
}

bool TcOperator::overlaps() {
  using Span = std::pair<uintptr_t, uintptr_t>;  // tensors of Caffe2 are row-major
  auto span = [](const caffe2::Tensor& tensor) {
    auto begin = reinterpret_cast<uintptr_t>(tensor.raw_data());
    return Span(begin, begin + tensor.nbytes());
  };
  auto meet = [](const Span& a, const Span& b) { return a.first < b.second && b.first < a.second; };
  for (int o = 0; o < OutputSize(); ++o) {
    const Span written = span(*Output(o));
    for (int i = 0; i < InputSize(); ++i)
      if (meet(written, span(Input(i)))) return true;
    for (int other = 0; other < o; ++other)
      if (meet(written, span(*Output(other)))) return true;
  }
  return false;
}

bool TcOperator::RunOnDevice() {
  return as_caffe2(type(), [&] {
    const Compiled& compiled = find();
    pointers_.clear();
    for (const Parameter& parameter : compiled.parameters)
      pointers_.push_back(parameter.input >= 0
                              ? const_cast<void*>(Input(parameter.input).raw_data())
                              : const_cast<int32_t*>(&parameter.number));
    for (size_t o = 0; o < compiled.outputs.size(); ++o)
      pointers_.push_back(prepare(static_cast<int>(o), compiled.outputs[o]));
    // Blobs may share memory: the core tells what is wrong of it.
    if (check_sizes_ || overlaps())
      run_checked(compiled);
    else
      compiled.kernel.launch(pointers_, &caffe2_host());
    return true;
  });
}

}  // namespace tc_caffe2
