// Kernels by Plans that tuning found.
#pragma once

#include <memory>
#include <string>

#include "compile.h"
#include "store/tuning.h"

namespace tc {

/// Compiles with a Plan that was found for these arguments, or for others near to them. Null where
/// it does not fit, or where one of others is not expected to be faster than what the compiler
/// chooses: that is logged, and `options` are what is left.
std::shared_ptr<const runtime::Kernel> compile_tuned(
    const store::Found& found, const ir::Program& program, const Layouts& layouts,
    const MappingOptions& options, const Target& target, const CpuMachine& machine,
    const CompileContext& context);

}  // namespace tc
