#include "runtime/check_tensor.h"

#include <algorithm>

#include "base/arguments.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/python_calls.h"

namespace tc::runtime {
namespace {

int64_t element_bytes(const DLTensor& tensor) { return std::max(1, (tensor.dtype.bits + 7) / 8); }

bool is_empty(const DLTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t s) { return s == 0; });
}

std::string layout_text(const DLTensor& tensor) {
  std::string text = "sizes " + tuple_text({tensor.shape, tensor.shape + tensor.ndim});
  if (!tensor.strides) return text;
  return text + " with strides " + tuple_text({tensor.strides, tensor.strides + tensor.ndim});
}

void check_reach(const DLTensor& tensor, const std::string& name) {
  // Distances in bytes, which stay in the address space.
  auto check = [&](int64_t distance, bool overflows = false) {
    if (overflows || distance > kAddressSpace || distance < -kAddressSpace)
      throw ShapeError(
          name, ": ", layout_text(tensor),
          ": elements would lie 2^57 bytes and more apart, further than memory reaches");
    return distance;
  };
  auto product = [&](int64_t a, int64_t b) {
    int64_t result = 0;
    const bool overflows = __builtin_mul_overflow(a, b, &result);
    return check(result, overflows);
  };
  int64_t bytes = element_bytes(tensor), low = 0, high = 0, dense = bytes;
  for (int32_t d = tensor.ndim; d-- > 0;) {
    // Elements are counted as well, which strides of 0 make many of in little memory.
    // Strides that lead to no other element may be anything: NumPy can write absurd ones for
    // dimensions of one element, to find code that relies on them.
    int64_t stride = !tensor.strides        ? dense
                     : tensor.shape[d] == 1 ? 0
                                            : product(tensor.strides[d], bytes);
    int64_t distance = product(tensor.shape[d] - 1, stride);
    (distance < 0 ? low : high) = check((distance < 0 ? low : high) + distance);
    dense = product(dense, tensor.shape[d]);
  }
  if (!tensor.data) return;
  auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  auto begin = address + static_cast<uintptr_t>(low);
  auto end = address + static_cast<uintptr_t>(high + bytes);
  if (begin > address || end < address)
    throw ShapeError(name, ": data at ", tensor.data, " with byte_offset ", tensor.byte_offset,
                     ", ", layout_text(tensor), ": elements would lie past the end of memory");
}

}  // namespace

void check_tensor(const DLTensor& tensor, const std::string& name, int32_t most) {
  if (tensor.ndim < 0 || tensor.ndim > most)
    throw ShapeError(name, ": ndim is ", tensor.ndim, "; a tensor has 0 to ", most, " dimensions");
  api::check_array(tensor.shape, (name + ": shape").c_str(), tensor.ndim, "ndim");
  for (int32_t d = 0; d < tensor.ndim; ++d)
    if (tensor.shape[d] < 0)
      throw ShapeError(name, ": the size of dimension ", d, " is ", tensor.shape[d],
                       "; sizes are 0 or more");
  const DLDevice device = tensor.device;
  if (device.device_type != kDLCPU && device.device_type != kDLCUDA)
    throw ShapeError(name, ": expected memory of the CPU (device type 1) or of CUDA (2) but got ",
                     device_name(device));
  if (device.device_id < 0 || (device.device_type == kDLCPU && device.device_id != 0))
    throw ShapeError(name, ": device_id is ", device.device_id,
                     "; it is 0 for the CPU, and the number of a GPU for CUDA");
  if (tensor.byte_offset > static_cast<uint64_t>(kAddressSpace))
    throw ShapeError(name, ": byte_offset ", tensor.byte_offset, " leads past the end of memory");
  if (!is_empty(tensor)) check_reach(tensor, name);
}

void check_data(const DLTensor& tensor, const std::string& name) {
  if (tensor.data || is_empty(tensor)) return;
  throw UsageError(name, ": data must not be NULL, since there are elements: it has ",
                   shape_text(tensor));
}

std::string shape_text(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMostDimensions || (tensor.ndim > 0 && !tensor.shape))
    return concat("ndim ", tensor.ndim);
  return "sizes " + tuple_text({tensor.shape, tensor.shape + tensor.ndim});
}

std::string tuple_text(const std::vector<int64_t>& numbers) {
  return to_string(PythonValue::tuple_of(numbers));
}

std::string device_name(DLDevice device) {
  if (device.device_type == kDLCPU) return "cpu";
  if (device.device_type == kDLCUDA) return concat("cuda:", device.device_id);
  return concat("device type ", device.device_type);
}

bool is_same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

}  // namespace tc::runtime
