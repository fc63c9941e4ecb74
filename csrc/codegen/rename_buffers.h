// Names of buffers that nothing else can bear.
#pragma once

#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// What a tensor's buffer is called inside a function. Loops, and the values that Halide's passes
/// and ours name, begin with a small letter ("t0", "c1_2", "offset"); so tensors that do get
/// another name.
std::string buffer_name(const std::string& tensor);

/// Calls all buffers that the statement does not allocate itself by `buffer_name`.
ir::Stmt rename_buffers(const ir::Stmt& stmt);

}  // namespace tc::codegen
