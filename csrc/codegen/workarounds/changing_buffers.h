// Keeps Halide from taking what a kernel writes for constant.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Halide's simplifier calls a load pure when it bears a parameter, which to Halide is an input,
/// and then makes one of two that a store lies between. Takes the parameters from loads of buffers
/// that the statement stores to.
ir::Stmt forget_parameters(const ir::Stmt& stmt);

/// Gives these loads the parameters of the stores back: they say how buffers are aligned. To be
/// called after all simplification.
ir::Stmt recall_parameters(const ir::Stmt& stmt);

}  // namespace tc::codegen
