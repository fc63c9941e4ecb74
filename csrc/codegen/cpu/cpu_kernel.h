// A compiled CPU function with the memory and threads that a run takes from the host.
#pragma once

#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "codegen/cpu/cpu_jit.h"

namespace tc::codegen {

/// The module's machine code as text. CompilationError where there is no place for a temporary
/// file.
std::string assembly(const Halide::Module& module);

/// The module's code. `body` is the function's statement before it became tasks: what it allocates
/// is got from the host before a run or a task begins, since generated code does not check.
/// `function` takes the user context, `arguments` pointers, and one for every workspace. Whether
/// results go past the caches (codegen/vectors/stream_rows) is left open.
CpuCode make_cpu_code(const Halide::Module& module, const Halide::Internal::LoweredFunc& function,
                      const ir::Stmt& body, size_t arguments,
                      const std::vector<runtime::Workspace>& workspaces);

}  // namespace tc::codegen
