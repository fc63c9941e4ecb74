// The vector instructions of the processor at hand, and what else follows from its kind.
#pragma once

#include <set>
#include <string>

namespace tc::machine {

/// Names of instruction sets as compilers spell them, such as "avx512vl".
using InstructionSets = std::set<std::string>;

/// What this processor has and the operating system keeps the registers of; empty where nothing is
/// known of the kind of processor. TC_WITHOUT names some that are left out,
/// "avx512vnni,avx512bf16": code is then made as for a processor that lacks them, and what builds
/// on them. UsageError for a name that is none.
InstructionSets usable_instruction_sets();

/// Of the widest registers that these have.
int vector_bits(const InstructionSets& usable);

/// Whether sums of neighbouring products (isa/dot_products) are instructions that LLVM makes for
/// these: Halide 21 has them with all others of a Zen 4.
bool has_dot_products(const InstructionSets& usable);

/// Of vectors that a unit of this processor's cores works on in one cycle: wider ones take two. No
/// limit where none is known.
int widest_unit_bits();

/// How many neighbouring lines of memory this processor's own prefetchers bring when the first is
/// prefetched; 1: that one alone.
int lines_of_a_request();

}  // namespace tc::machine
