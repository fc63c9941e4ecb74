#include "torch/libraries.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdio>
#include <exception>

#include "torch/after_fork.h"
#include "torch/operator.h"

namespace tc_torch {
namespace {

/// What surrounds the caller stays there: gradients, autocast, modes of Python, transformations of
/// torch.func. The operands of a call are memory alone.
struct PlainCalls {
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard alone{
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::Functionalize,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};

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

at::Tensor to_tensor(const DLTensor& tensor) {
  return at::from_blob(tensor.data, at::IntArrayRef(tensor.shape, tensor.ndim),
                       at::IntArrayRef(tensor.strides, tensor.ndim),
                       at::TensorOptions().dtype(to_scalar_type(tensor.dtype)));
}

/// Runs a call; what it throws becomes a message.
template <class Call>
int guarded(char* message, size_t size, Call call) {
  try {
    PlainCalls plain;
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

int convolve(void*, const tc_convolution* convolution, const DLTensor* image,
             const DLTensor* filters, const DLTensor* result, char* message, size_t size) {
  return guarded(message, size, [&] {
    auto values = [&](const int64_t* list) {
      return at::IntArrayRef(list, static_cast<size_t>(convolution->dimensions));
    };
    at::IntArrayRef stride = values(convolution->stride), padding = values(convolution->padding),
                    dilation = values(convolution->dilation);
    std::vector<int64_t> none(stride.size(), 0);
    at::Tensor x = to_tensor(*image), w = to_tensor(*filters), out = to_tensor(*result), made;
    switch (convolution->kind) {
      case TC_CONVOLUTION:
        made =
            at::convolution(x, w, {}, stride, padding, dilation, false, none, convolution->groups);
        break;
      case TC_CONVOLUTION_IMAGE_GRADIENT:
        made = std::get<0>(at::convolution_backward(x, out, w, at::OptionalIntArrayRef(), stride,
                                                    padding, dilation, false, none,
                                                    convolution->groups, {true, false, false}));
        break;
      default:
        made = std::get<1>(at::convolution_backward(w, x, out, at::OptionalIntArrayRef(), stride,
                                                    padding, dilation, false, none,
                                                    convolution->groups, {false, true, false}));
    }
    out.copy_(made);
  });
}

int deterministic(void*) { return at::globalContext().deterministicAlgorithms(); }

}  // namespace

const tc_libraries& aten_libraries() {
  static const tc_libraries libraries = {"ATen",   nullptr,       multiply,
                                         convolve, &torch_host(), deterministic};
  return libraries;
}

}  // namespace tc_torch
