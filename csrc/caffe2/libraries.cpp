#include "caffe2/libraries.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "caffe2/host.h"
#include "tc/tc.hpp"

namespace tc_caffe2 {
namespace {

/// Keeps the library to one thread while it lives, where there is no team.
struct AloneIfForked {
  const int threads = lost_its_team() ? at::get_num_threads() : 1;
  AloneIfForked() {
    if (threads > 1) at::set_num_threads(1);
  }
  ~AloneIfForked() {
    if (threads > 1) at::set_num_threads(threads);
  }
};

at::ScalarType scalar_type(DLDataType type) {
  if (type.code == kDLBfloat) return at::kBFloat16;
  return type.bits == 16 ? at::kHalf : type.bits == 32 ? at::kFloat : at::kDouble;
}

at::Tensor to_tensor(const DLTensor& tensor) {
  const auto rank = static_cast<size_t>(tensor.ndim);
  return at::from_blob(tensor.data, at::IntArrayRef(tensor.shape, rank),
                       at::IntArrayRef(tensor.strides, rank),
                       at::TensorOptions(scalar_type(tensor.dtype)));
}

/// Runs a call; what it throws becomes a message.
template <class Call>
int guarded(char* message, size_t size, Call call) {
  try {
    at::AutoDispatchBelowADInplaceOrView plain;
    AloneIfForked alone;
    call();
    return 0;
  } catch (const c10::Error& error) {
    std::snprintf(message, size, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
  }
  return 1;
}

int multiply(void*, const DLTensor* a, const DLTensor* b, const DLTensor* result, int accumulate,
             char* message, size_t size) {
  return guarded(message, size, [&] {
    at::Tensor x = to_tensor(*a), y = to_tensor(*b), out = to_tensor(*result);
    if (out.size(0) == 1) {
      x = x.squeeze(0), y = y.squeeze(0), out = out.squeeze(0);
      if (accumulate)
        out.addmm_(x, y);
      else
        at::mm_out(out, x, y);
    } else if (accumulate) {
      out.baddbmm_(x, y);
    } else {
      at::bmm_out(out, x, y);
    }
  });
}

/// A convolution with its windows as ATen wants them. Along one dimension it is one along two, the
/// first of size one.
struct Windows {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  bool lifted;

  explicit Windows(const tc_convolution& convolution)
      : groups(convolution.groups), lifted(convolution.dimensions == 1) {
    if (lifted) stride = {1}, padding = {0}, dilation = {1};
    for (int d = 0; d < convolution.dimensions; ++d) {
      stride.push_back(convolution.stride[d]);
      padding.push_back(convolution.padding[d]);
      dilation.push_back(convolution.dilation[d]);
    }
  }
  at::Tensor tensor(const DLTensor& given) const {
    at::Tensor found = to_tensor(given);
    return lifted ? found.unsqueeze(2) : found;
  }
  at::Tensor convolve(const at::Tensor& image, const at::Tensor& filters, bool transposed = false,
                      std::vector<int64_t> output_padding = {}) const {
    output_padding.resize(stride.size(), 0);
    return at::convolution(image, filters, {}, stride, padding, dilation, transposed,
                           output_padding, groups);
  }
};

/// From the gradient of the result, of whose sizes several of the image may have been made.
at::Tensor image_gradient(const Windows& windows, const at::Tensor& gradient,
                          const at::Tensor& filters, at::IntArrayRef sizes) {
  if (gradient.scalar_type() == at::kFloat)
    return at::mkldnn_convolution_backward_input(sizes, gradient.contiguous(), filters.contiguous(),
                                                 windows.padding, windows.stride, windows.dilation,
                                                 windows.groups, false);
  std::vector<int64_t> rest;
  for (size_t d = 0; d < windows.stride.size(); ++d) {
    auto at = static_cast<int64_t>(d) + 2;
    int64_t covered = (gradient.size(at) - 1) * windows.stride[d] - 2 * windows.padding[d] +
                      windows.dilation[d] * (filters.size(at) - 1) + 1;
    rest.push_back(sizes[d + 2] - covered);
  }
  return windows.convolve(gradient, filters, true, rest);
}

at::Tensor filter_gradient(const Windows& windows, const at::Tensor& image,
                           const at::Tensor& gradient, at::IntArrayRef sizes) {
  if (image.scalar_type() == at::kFloat)
    return std::get<0>(at::mkldnn_convolution_backward_weights(
        sizes, gradient.contiguous(), image.contiguous(), windows.padding, windows.stride,
        windows.dilation, windows.groups, false));
  // A convolution in which examples and channels change places, and so do stride and dilation.
  std::vector<at::Tensor> parts;
  at::Tensor images = image.transpose(0, 1), gradients = gradient.transpose(0, 1);
  const std::vector<int64_t> none(windows.stride.size(), 0);
  for (int64_t g = 0; g < windows.groups; ++g) {
    int64_t channels = images.size(0) / windows.groups;
    int64_t filters = gradients.size(0) / windows.groups;
    at::Tensor part = at::convolution(
        images.narrow(0, g * channels, channels), gradients.narrow(0, g * filters, filters), {},
        windows.dilation, windows.padding, windows.stride, false, none, 1);
    for (size_t d = 2; d < sizes.size(); ++d)
      part = part.narrow(static_cast<int64_t>(d), 0, sizes[d]);
    parts.push_back(part.transpose(0, 1));
  }
  return at::cat(parts, 0);
}

int convolve(void*, const tc_convolution* convolution, const DLTensor* image,
             const DLTensor* filters, const DLTensor* result, char* message, size_t size) {
  return guarded(message, size, [&] {
    const Windows windows(*convolution);
    at::Tensor x = windows.tensor(*image), w = windows.tensor(*filters),
               out = windows.tensor(*result);
    switch (convolution->kind) {
      case TC_CONVOLUTION: out.copy_(windows.convolve(x, w)); break;
      case TC_CONVOLUTION_IMAGE_GRADIENT:
        out.copy_(image_gradient(windows, x, w, out.sizes()));
        break;
      default: out.copy_(filter_gradient(windows, x, w, out.sizes()));
    }
  });
}

int deterministic(void*) { return at::globalContext().deterministicAlgorithms(); }

}  // namespace

void use_libraries() {
  static const tc_libraries libraries = {"ATen",   nullptr,        multiply,
                                         convolve, &caffe2_host(), deterministic};
  static const tc_status set = tc_set_libraries(&libraries);
  tensor_comprehensions::check(set);
}

}  // namespace tc_caffe2
