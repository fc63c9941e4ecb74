#include "torch/arguments.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace tc_torch {
namespace {

/// Those that the language has.
const std::pair<at::ScalarType, DLDataType> types[] = {
    {at::kBool, {kDLBool, 8, 1}},        {at::kChar, {kDLInt, 8, 1}},
    {at::kShort, {kDLInt, 16, 1}},       {at::kInt, {kDLInt, 32, 1}},
    {at::kLong, {kDLInt, 64, 1}},        {at::kByte, {kDLUInt, 8, 1}},
    {at::kUInt16, {kDLUInt, 16, 1}},     {at::kUInt32, {kDLUInt, 32, 1}},
    {at::kUInt64, {kDLUInt, 64, 1}},     {at::kHalf, {kDLFloat, 16, 1}},
    {at::kBFloat16, {kDLBfloat, 16, 1}}, {at::kFloat, {kDLFloat, 32, 1}},
    {at::kDouble, {kDLFloat, 64, 1}},
};

/// What a text calls a type: "uint8" of at::kByte.
std::string language_name(at::ScalarType type) {
  const DLDataType found = to_dlpack(type);
  switch (found.code) {
    case kDLBool: return "bool";
    case kDLInt: return c10::str("int", int{found.bits});
    case kDLUInt: return c10::str("uint", int{found.bits});
    case kDLBfloat: return "bfloat16";
    default: return found.bits == 16 ? "half" : found.bits == 32 ? "float" : "double";
  }
}

std::string layout_name(at::Layout layout) {
  switch (layout) {
    case at::kSparse: return "torch.sparse_coo";
    case at::kSparseCsr: return "torch.sparse_csr";
    case at::kSparseCsc: return "torch.sparse_csc";
    case at::kSparseBsr: return "torch.sparse_bsr";
    case at::kSparseBsc: return "torch.sparse_bsc";
    default: return c10::str(layout);
  }
}

/// The bytes of its storage, counted from the first, that a tensor's elements reach into.
size_t bytes_reached(const at::Tensor& tensor) {
  int64_t last = tensor.storage_offset() + tensor.numel();  // behind it, where there are no gaps
  if (!tensor.is_contiguous()) {
    last = tensor.storage_offset() + 1;
    auto sizes = tensor.sizes(), strides = tensor.strides();
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  }
  return static_cast<size_t>(last) * tensor.itemsize();
}

[[noreturn]] C10_NOINLINE void raise_missing_memory(const char* role, const ArgumentInfo& info,
                                                    size_t needed, size_t held) {
  raise(TC_SHAPE_ERROR, role, " ", info.name, ": its elements need ", needed,
        " bytes of memory but its storage holds ", held,
        "; it was freed or made smaller, as by untyped_storage().resize_(): fill it again "
        "before the call");
}

/// The memory that a tensor's elements lie in, as [first byte, byte after the last).
std::pair<intptr_t, intptr_t> memory_span(const at::Tensor& tensor) {
  auto begin = reinterpret_cast<intptr_t>(tensor.const_data_ptr());
  if (tensor.numel() == 0) return {begin, begin};
  int64_t low = 0, high = 1;
  auto sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d)
    (strides[d] < 0 ? low : high) += (sizes[d] - 1) * strides[d];
  auto bytes = static_cast<int64_t>(tensor.element_size());
  return {begin + low * bytes, begin + high * bytes};
}

}  // namespace

at::ScalarType to_scalar_type(DLDataType dtype) {
  for (const auto& [type, other] : types)
    if (other.code == dtype.code && other.bits == dtype.bits) return type;
  raise(TC_INTERNAL_ERROR, "PyTorch has no type of DLPack code ", int{dtype.code});
}

ModulePtr parse_module(const std::string& text) {
  return {ask<tc_module*>(tc_module_parse, text.c_str()), tc_module_free};
}

Definition::Definition(ModulePtr module, const tc_definition* definition)
    : name(tc_definition_name(definition)), module_(std::move(module)), definition_(definition) {
  auto info = [](const tc_argument& argument) {
    ArgumentInfo result;
    result.name = argument.name;
    result.dtype = to_scalar_type(argument.dtype);
    result.rank = argument.ndim;
    result.scalar = argument.is_scalar;
    result.specialized = argument.specialized;
    result.accumulates = argument.accumulates;
    result.read = argument.read;
    result.follows = argument.follows;
    return result;
  };
  for (int32_t i = 0; i < tc_definition_input_count(definition); ++i)
    inputs.push_back(info(ask<tc_argument>(tc_definition_input, definition, i)));
  for (int32_t o = 0; o < tc_definition_output_count(definition); ++o)
    outputs.push_back(info(ask<tc_argument>(tc_definition_output, definition, o)));
}

DLDataType to_dlpack(at::ScalarType type) {
  for (const auto& [own, dtype] : types)
    if (own == type) return dtype;
  auto bits = static_cast<uint8_t>(c10::elementSize(type) * 8);
  if (c10::isFloatingType(type)) return {kDLFloat, bits, 1};
  if (c10::isComplexType(type)) return {5, bits, 1};  // kDLComplex of newer DLPack headers
  // Quantized, bits: a code that no definition has, so that the check refuses the type.
  return {255, bits, 1};
}

DLDevice to_dlpack(at::Device device) {
  if (!device.is_cuda()) return {kDLCPU, 0};
  return {kDLCUDA, static_cast<int32_t>(device.index())};
}

void store_scalar(const ArgumentInfo& info, const c10::IValue& value, void* storage) try {
  auto store = [&](auto number) { std::memcpy(storage, &number, sizeof number); };
  at::Scalar scalar = value.toScalar();
  // at::Scalar takes -1 for the largest number.
  if (to_dlpack(info.dtype).code == kDLUInt && scalar.isIntegral(false) && scalar.toLong() < 0)
    throw std::out_of_range("negative");
  switch (info.dtype) {
    case at::kBool: return store(scalar.to<bool>());
    case at::kByte: return store(scalar.to<uint8_t>());
    case at::kChar: return store(scalar.to<int8_t>());
    case at::kShort: return store(scalar.to<int16_t>());
    case at::kInt: return store(scalar.to<int32_t>());
    case at::kLong: return store(scalar.to<int64_t>());
    case at::kUInt16: return store(scalar.to<uint16_t>());
    case at::kUInt32: return store(scalar.to<uint32_t>());
    case at::kUInt64: return store(scalar.to<uint64_t>());
    case at::kHalf: return store(scalar.to<at::Half>());
    case at::kBFloat16: return store(scalar.to<at::BFloat16>());
    case at::kFloat: return store(scalar.to<float>());
    default: return store(scalar.to<double>());
  }
} catch (const std::exception&) {  // at::Scalar found that the number does not fit
  raise(TC_SHAPE_ERROR, "argument ", info.name, ": expected a number that fits ",
        language_name(info.dtype), " but got ", value);
}

DLTensor to_dltensor(const at::Tensor& tensor) {
  DLTensor result{};
  result.data = const_cast<void*>(tensor.const_data_ptr());
  result.device = to_dlpack(tensor.device());
  result.ndim = static_cast<int32_t>(tensor.dim());
  result.dtype = to_dlpack(tensor.scalar_type());
  result.shape = const_cast<int64_t*>(tensor.sizes().data());
  result.strides = const_cast<int64_t*>(tensor.strides().data());
  return result;
}

DLTensor cpu_tensor(at::ScalarType type, void* data, at::IntArrayRef sizes) {
  return {data,
          {kDLCPU, 0},
          static_cast<int32_t>(sizes.size()),
          to_dlpack(type),
          const_cast<int64_t*>(sizes.data()),
          nullptr,
          0};
}

Tensors::Tensors(at::ArrayRef<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) add(to_dltensor(tensor));
}

std::vector<int64_t> infer_result_sizes(const Definition& definition, const Tensors& inputs) {
  size_t rank = 0;
  for (const ArgumentInfo& output : definition.outputs) rank += output.rank;
  std::vector<int64_t> sizes(rank);
  check(tc_infer_sizes(definition.get(), inputs.data(), inputs.count(), sizes.data(),
                       static_cast<int32_t>(rank)));
  return sizes;
}

CallArguments::CallArguments(const Definition& definition, at::ArrayRef<c10::IValue> inputs)
    : values_(inputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentInfo& info = definition.inputs[i];
    if (info.scalar) {
      store_scalar(info, inputs[i], &values_[i]);
      add(cpu_tensor(info.dtype, &values_[i]));
    } else {
      const at::Tensor& tensor = inputs[i].toTensor();
      check_tensor("argument", info, tensor);
      add(to_dltensor(tensor));
    }
  }
}

InputsWithoutData::InputsWithoutData(const Definition& definition, std::vector<int64_t> values,
                                     std::vector<std::vector<int64_t>> sizes)
    : values_(std::move(values)), sizes_(std::move(sizes)) {
  for (size_t i = 0; i < definition.inputs.size(); ++i) {
    const ArgumentInfo& info = definition.inputs[i];
    // Whose low bytes are the scalar's, whatever its width.
    int64_t* value = info.specialized ? &values_[i] : nullptr;
    const at::IntArrayRef given =
        i < sizes_.size() ? at::IntArrayRef(sizes_[i]) : at::IntArrayRef();
    add(cpu_tensor(info.dtype, value, given));
  }
}

void check_tensor(const char* role, const ArgumentInfo& info, const at::Tensor& tensor) {
  if (!tensor.defined())
    raise(TC_SHAPE_ERROR, role, " ", info.name, ": expected a tensor but got None");
  if (tensor.layout() != at::kStrided)
    raise(TC_SHAPE_ERROR, role, " ", info.name, ": expected a strided tensor but got layout ",
          layout_name(tensor.layout()), "; call to_dense() on it");
  if (!tensor.is_cpu() && !tensor.is_cuda())
    raise(TC_SHAPE_ERROR, role, " ", info.name,
          ": expected a tensor on the CPU or a CUDA device but got ", tensor.device());
  if (tensor.is_neg())  // left only where the dispatcher was passed by
    raise(TC_SHAPE_ERROR, role, " ", info.name,
          ": expected plain memory but got a view that negates lazily; pass a clone() of it");
}

void check_memory(const char* role, const ArgumentInfo& info, const at::Tensor& tensor) {
  if (tensor.numel() == 0 || !tensor.has_storage()) return;
  size_t held = tensor.storage().nbytes(), needed = bytes_reached(tensor);
  if (needed > held) raise_missing_memory(role, info, needed, held);
}

void check_memory(const std::vector<ArgumentInfo>& infos, at::ArrayRef<c10::IValue> inputs) {
  for (size_t i = 0; i < infos.size(); ++i)
    if (!infos[i].scalar) check_memory("argument", infos[i], inputs[i].toTensor());
}

bool may_overlap(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs) {
  auto meet = [](const auto& a, const auto& b) { return a.first < b.second && b.first < a.second; };
  for (size_t o = 0; o < outputs.size(); ++o) {
    auto output = memory_span(outputs[o]);
    for (const c10::IValue& input : inputs)
      if (input.isTensor() && meet(output, memory_span(input.toTensor()))) return true;
    for (const at::Tensor& other : outputs.slice(0, o))
      if (meet(output, memory_span(other))) return true;
  }
  return false;
}

}  // namespace tc_torch
