// From an operator of a net to what it computes.
#pragma once

#include "caffe2/arguments.h"
#include "caffe2/source.h"

namespace tc_caffe2 {

/// What the types of derivatives' operators end in: TcMatMulOpGradient. That of TcOp is a TcOp with
/// is_backward, as in 2018.
inline const std::string kGradientSuffix = "Gradient";

/// Whether an operator of a net is a derivative.
bool is_backward(const Arguments& arguments);

/// What an operator of a net computes. UsageError, LanguageError.
SourcePtr make_source(const Arguments& arguments);

/// What the operator computes that an operator is the derivative of; for others the same.
SourcePtr make_forward_source(const Arguments& arguments);

}  // namespace tc_caffe2
