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

using tensor_comprehensions::check;
using tensor_comprehensions::ShapeError;

// Kernels that an operator keeps: batches of a net come in some sizes, the last of an epoch is
// another. A kernel takes some ten kilobytes, and the time of compiling it anew is no more than
// that of a training step.
constexpr size_t kKernels = 64;

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

/// The memory of a tensor, which is row-major.
struct Span {
  uintptr_t begin, end;
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

}  // namespace

TcOperator::TcOperator(const caffe2::OperatorDef& definition, caffe2::Workspace* workspace)
    : Operator(definition, workspace),
      source_(as_caffe2(definition.type(), [&] { return make_source(Arguments(definition)); })),
      scheduling_(as_caffe2(definition.type(),
                            [&] {
                              Arguments arguments(definition);
                              return Scheduling(arguments, is_backward(arguments));
                            })),
      check_sizes_(Arguments(definition).integer("checkSizes", 0) != 0) {
  use_libraries();
}

bool TcOperator::matches(const Specialization& candidate) {
  for (size_t i = 0; i < candidate.inputs.size(); ++i) {
    const Specialization::Input& wanted = candidate.inputs[i];
    const caffe2::Tensor& input = Input(static_cast<int>(i));
    if (input.dtype() != wanted.type) return false;
    auto sizes = input.sizes();
    if (sizes.size() != wanted.sizes.size() ||
        !std::equal(sizes.begin(), sizes.end(), wanted.sizes.begin()))
      return false;
    if (wanted.has_value &&
        scalar_value(input.raw_data(), to_dlpack(wanted.type, "")) != wanted.value)
      return false;
  }
  return true;
}

const TcOperator::Specialization& TcOperator::find() {
  if (!known_.empty() && matches(known_.front())) return known_.front();
  auto found = std::find_if(known_.begin(), known_.end(),
                            [&](const Specialization& each) { return matches(each); });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
  } else {
    known_.push_front(compile());
    if (known_.size() > kKernels) known_.pop_back();
  }
  return known_.front();
}

TcOperator::Specialization TcOperator::compile() {
  std::vector<Given> inputs(static_cast<size_t>(InputSize()));
  for (int i = 0; i < InputSize(); ++i) {
    const caffe2::Tensor& input = Input(i);
    const std::string name = "input " + std::to_string(i);
    if (!input.dtype_initialized())
      throw ShapeError(TC_SHAPE_ERROR, name + " has no element type: nothing was written to it");
    Given& given = inputs[static_cast<size_t>(i)];
    given.dtype = to_dlpack(input.dtype(), name);
    given.sizes = input.sizes().vec();
    given.data = input.raw_data();
  }
  const Definition definition = source_->definition(inputs);
  if (OutputSize() != definition.output_count())
    throw ShapeError(TC_SHAPE_ERROR,
                     definition.name() + " gives " + std::to_string(definition.output_count()) +
                         " outputs but the operator has " + std::to_string(OutputSize()));
  Specialization result;
  result.parameters = source_->parameters(definition, inputs);
  const DLTensors tensors(definition, result.parameters, inputs);
  const std::vector<Sizes> sizes = infer_sizes(definition, tensors);
  const auto options = scheduling_.options(definition);
  tc_kernel* kernel = nullptr;
  check(tc_compile(definition.get(), options ? options->get() : nullptr, "cpu", tensors.data(),
                   tensors.size(), nullptr, 0, &kernel));
  result.kernel.reset(kernel, tc_kernel_free);

  for (size_t i = 0; i < inputs.size(); ++i)
    result.inputs.push_back({Input(static_cast<int>(i)).dtype(), inputs[i].sizes});
  for (size_t p = 0; p < result.parameters.size(); ++p) {
    const int32_t input = result.parameters[p].input;
    result.parameter_types.push_back(tensors.data()[p]->dtype);
    if (input < 0 || !definition.input(static_cast<int32_t>(p)).specialized) continue;
    const Given& given = inputs[static_cast<size_t>(input)];
    result.inputs[static_cast<size_t>(input)].has_value = true;
    result.inputs[static_cast<size_t>(input)].value = scalar_value(given.data, given.dtype);
  }
  for (size_t o = 0; o < sizes.size(); ++o) {
    const tc_argument output = definition.output(static_cast<int32_t>(o));
    result.output_types.push_back(output.dtype);
    result.outputs.push_back({to_caffe2(output.dtype), source_->output_sizes(o, sizes[o], inputs),
                              sizes[o], output.accumulates != 0});
  }
  return result;
}

void* TcOperator::prepare(int index, const Specialization::Output& output) {
  if (output.accumulates) {
    const caffe2::Blob* blob = OutputBlob(index);
    const bool fits = caffe2::BlobIsTensorType(*blob, caffe2::CPU) &&
                      blob->Get<caffe2::Tensor>().dtype() == output.type &&
                      blob->Get<caffe2::Tensor>().sizes() == at::IntArrayRef(output.sizes);
    if (!fits)
      throw ShapeError(TC_SHAPE_ERROR,
                       "output " + std::to_string(index) +
                           " is added to, so that it has to hold values: a tensor of sizes " +
                           c10::str(at::IntArrayRef(output.sizes)) + " and type " +
                           std::string(output.type.name()) + "; fill it before the net runs");
  }
  return Output(index, output.sizes, at::dtype(output.type))->raw_mutable_data(output.type);
}

void TcOperator::run_checked(const Specialization& specialization) {
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> pointers;
  auto add = [&](const Sizes& sizes, DLDataType type) {
    DLTensor tensor{};
    tensor.data = pointers_[tensors.size()];
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(sizes.size());
    tensor.dtype = type;
    tensor.shape = const_cast<int64_t*>(sizes.data());
    tensors.push_back(tensor);
  };
  for (size_t p = 0; p < specialization.parameters.size(); ++p)
    add(specialization.parameters[p].sizes, specialization.parameter_types[p]);
  for (size_t o = 0; o < specialization.outputs.size(); ++o)
    add(specialization.outputs[o].view, specialization.output_types[o]);
  for (const DLTensor& tensor : tensors) pointers.push_back(&tensor);
  const auto inputs = static_cast<int32_t>(specialization.parameters.size());
  check(tc_kernel_run(specialization.kernel.get(), &caffe2_host(), pointers.data(), inputs,
                      pointers.data() + inputs, static_cast<int32_t>(pointers.size()) - inputs));
}

bool TcOperator::RunOnDevice() {
  return as_caffe2(type(), [&] {
    const Specialization& specialization = find();
    pointers_.clear();
    for (const Parameter& parameter : specialization.parameters)
      pointers_.push_back(parameter.input >= 0
                              ? const_cast<void*>(Input(parameter.input).raw_data())
                              : const_cast<int32_t*>(&parameter.number));
    bool checked = check_sizes_;
    for (size_t o = 0; o < specialization.outputs.size(); ++o) {
      void* memory = prepare(static_cast<int>(o), specialization.outputs[o]);
      pointers_.push_back(memory);
    }
    // Blobs may share memory, which the core tells from what is right.
    auto span = [](const caffe2::Tensor& tensor) {
      auto begin = reinterpret_cast<uintptr_t>(tensor.raw_data());
      return Span{begin, begin + tensor.nbytes()};
    };
    for (int o = 0; o < OutputSize() && !checked; ++o) {
      const Span written = span(*Output(o));
      for (int i = 0; i < InputSize(); ++i) checked = checked || written.meets(span(Input(i)));
      for (int other = 0; other < o; ++other)
        checked = checked || written.meets(span(*Output(other)));
    }
    if (checked)
      run_checked(specialization);
    else
      check(tc_kernel_launch(specialization.kernel.get(), &caffe2_host(), pointers_.data()));
    return true;
  });
}

}  // namespace tc_caffe2
