// The instructions that generated code may use in this process.
#pragma once

#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// Names of instruction sets as compilers spell them, such as "avx512vl".
using InstructionSets = std::set<std::string>;

/// What this processor has and the operating system keeps the registers of; empty where nothing is
/// known of the kind of processor.
InstructionSets usable_instruction_sets();

/// An x86 target without the features that need anything else. Halide 21 knows AMD's processors by
/// family and model and takes for granted what a hypervisor may have hidden: its code for a Zen 4
/// without AVX-512 ends the process at its first instruction.
Halide::Target restrict_target(Halide::Target target, const InstructionSets& usable);

/// Of vectors that a unit of this processor's cores works on in one cycle: wider ones take two. No
/// limit where none is known.
int widest_unit_bits();

/// How many neighbouring lines of memory this processor's own prefetchers bring when the first is
/// asked for; 1: that one alone.
int lines_of_a_request();

}  // namespace tc::codegen
