// The instructions that generated code may use in this process.
#pragma once

#include "ir/halide.h"
#include "machine/instruction_sets.h"

namespace tc::codegen {

/// An x86 target without the features that need anything else. Halide 21 knows AMD's processors by
/// family and model and takes for granted what a hypervisor may have hidden: its code for a Zen 4
/// without AVX-512 ends the process at its first instruction.
Halide::Target restrict_target(Halide::Target target, const machine::InstructionSets& usable);

}  // namespace tc::codegen
