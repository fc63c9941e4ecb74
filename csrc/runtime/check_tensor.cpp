#include "runtime/check_tensor.h"

#include <algorithm>
#include <cstdlib>

#include "base/arguments.h"
#include "base/error.h"
#include "base/memory.h"

namespace tc::runtime {
namespace {

int64_t element_bytes(const DLTensor& tensor) { return std::max(1, (tensor.dtype.bits + 7) / 8); }

bool is_empty(const DLTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t s) { return s == 0; });
}

template <class Number>
std::string list(const Number* numbers, int32_t count) {
  std::string text = "(";
  for (int32_t d = 0; d < count; ++d) text += concat(d ? ", " : "", numbers[d]);
  return text + (count == 1 ? ",)" : ")");
}

std::string layout_text(const DLTensor& tensor) {
  std::string text = "sizes " + list(tensor.shape, tensor.ndim);
  return tensor.strides ? text + " with strides " + list(tensor.strides, tensor.ndim) : text;
}

/// Distances in bytes; a ShapeError where they leave the address space.
class Reach {
 public:
  Reach(const DLTensor& tensor, const std::string& name) : tensor_(tensor), name_(name) {}

  int64_t product(int64_t a, int64_t b) const {
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result)) fail();
    return check(result);
  }
  int64_t check(int64_t bytes) const {
    if (bytes > kAddressSpace || bytes < -kAddressSpace) fail();
    return bytes;
  }

 private:
  [[noreturn]] void fail() const {
    throw ShapeError(concat(name_, ": ", layout_text(tensor_),
                            ": elements would lie 2^57 bytes and ",
                            "more apart, further than memory reaches"));
  }
  const DLTensor& tensor_;
  const std::string& name_;
};

void check_reach(const DLTensor& tensor, const std::string& name) {
  const Reach reach(tensor, name);
  int64_t bytes = element_bytes(tensor), low = 0, high = 0, dense = bytes;
  for (int32_t d = tensor.ndim; d-- > 0;) {
    // Elements are counted as well, which strides of 0 make many of in little memory.
    int64_t stride = !tensor.strides               ? dense
                     : is_unused_stride(tensor, d) ? 0
                                                   : reach.product(tensor.strides[d], bytes);
    int64_t distance = reach.product(tensor.shape[d] - 1, stride);
    (distance < 0 ? low : high) = reach.check((distance < 0 ? low : high) + distance);
    dense = reach.product(dense, tensor.shape[d]);
  }
  if (!tensor.data) return;
  auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  auto begin = address + static_cast<uintptr_t>(low);
  auto end = address + static_cast<uintptr_t>(high + bytes);
  if (begin > address || end < address)
    throw ShapeError(concat(name, ": data at ", tensor.data, " with byte_offset ",
                            tensor.byte_offset, ", ", layout_text(tensor),
                            ": elements would lie past the end of memory"));
}

}  // namespace

void check_tensor(const DLTensor& tensor, const std::string& name, int32_t most) {
  if (tensor.ndim < 0 || tensor.ndim > most)
    throw ShapeError(
        concat(name, ": ndim is ", tensor.ndim, "; a tensor has 0 to ", most, " dimensions"));
  api::check_array(tensor.shape, (name + ": shape").c_str(), tensor.ndim, "ndim");
  for (int32_t d = 0; d < tensor.ndim; ++d)
    if (tensor.shape[d] < 0)
      throw ShapeError(concat(name, ": the size of dimension ", d, " is ", tensor.shape[d],
                              "; sizes are 0 or more"));
  const DLDevice device = tensor.device;
  if (device.device_type != kDLCPU && device.device_type != kDLCUDA)
    throw ShapeError(concat(name, ": expected memory of the CPU (device type 1) or of CUDA (2) but",
                            " got ", device_name(device)));
  if (device.device_id < 0 || (device.device_type == kDLCPU && device.device_id != 0))
    throw ShapeError(concat(name, ": device_id is ", device.device_id, "; it is 0 for the CPU, ",
                            "and the number of a GPU for CUDA"));
  if (tensor.byte_offset > static_cast<uint64_t>(kAddressSpace))
    throw ShapeError(
        concat(name, ": byte_offset ", tensor.byte_offset, " leads past the end of memory"));
  if (!is_empty(tensor)) check_reach(tensor, name);
}

void check_data(const DLTensor& tensor, const std::string& name) {
  if (tensor.data || is_empty(tensor)) return;
  throw UsageError(concat(name, ": data must not be NULL, since there are elements: it has ",
                          shape_text(tensor)));
}

std::string shape_text(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMostDimensions || (tensor.ndim > 0 && !tensor.shape))
    return concat("ndim ", tensor.ndim);
  return "sizes " + list(tensor.shape, tensor.ndim);
}

std::string device_name(DLDevice device) {
  if (device.device_type == kDLCPU) return "cpu";
  if (device.device_type == kDLCUDA) return concat("cuda:", device.device_id);
  return concat("device type ", device.device_type);
}

bool is_unused_stride(const DLTensor& tensor, int32_t dimension) {
  int64_t stride = tensor.strides[dimension];
  if (stride >= -kAddressSpace && stride <= kAddressSpace) return false;
  return tensor.shape[dimension] <= 1 || is_empty(tensor);
}

}  // namespace tc::runtime
