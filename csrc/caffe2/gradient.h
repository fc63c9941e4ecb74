// The gradients of operators of a net.
#pragma once

#include <string>

namespace tc_caffe2 {

/// Tells Caffe2 how the derivative of an operator of this type is added to a net.
void register_gradient(const std::string& type);

}  // namespace tc_caffe2
