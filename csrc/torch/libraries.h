// ATen's products and convolutions for the core.
#pragma once

#include "tc/tc.h"

namespace tc_torch {

/// at::mm, at::bmm and at::convolution with its gradients, on tensors of the CPU, as
/// tc_set_libraries takes them.
const tc_libraries& aten_libraries();

}  // namespace tc_torch
