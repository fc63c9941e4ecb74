// Names of buffers that nothing else can bear.
#pragma once

#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// What a tensor's buffer is called inside a function. Loops, and the values that Halide's passes
/// and ours name, begin with a small letter ("t0", "c1_2", "offset"); so tensors that do get
/// another name.
std::string buffer_name(const std::string& tensor);

/// Calls all buffers that are not the nest's own by `buffer_name`.
nest::Nest rename_buffers(const nest::Nest& nest);

}  // namespace tc::codegen
