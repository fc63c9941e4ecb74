// What a Plan is tuned for, as arguments of the C interface say it.
#pragma once

#include "compile.h"
#include "lang/lowering/definition.h"
#include "machine/cpu.h"
#include "runtime/arguments.h"
#include "store/tuning.h"

namespace tc::api {

/// Checked inputs, the specialised program, and the layouts of all outputs.
struct Specialized {
  runtime::Arguments arguments;
  ir::Program program;
};

/// Checks the arguments of a compilation. Without outputs these are row-major. ShapeError where
/// something does not fit; `addresses`: whether overlap is looked at.
Specialized specialize(const lang::Definition& definition, const DLTensor* const* inputs,
                       int32_t input_count, const DLTensor* const* outputs, int32_t output_count,
                       bool addresses);

store::TuningKey tuning_key(const lang::Definition& definition, const Specialized& specialized,
                            const MappingOptions& options, const Target& target,
                            const CpuMachine& machine);

}  // namespace tc::api
