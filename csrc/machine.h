// The machine that decisions are made for.
#pragma once

#include <string>

#include "poly/map_cpu.h"

namespace tc {

/// This processor, or what TC_MACHINE says instead, so that decisions can be compared between
/// machines: "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288". That changes
/// decisions only; code is made for the processor at hand. UsageError for any other text.
poly::CpuMachine this_machine();

/// "512-bit vectors, 32 registers, 2 cores, 512 KiB of cache for copies".
std::string to_string(const poly::CpuMachine& machine);

/// Floating-point operations that a core starts in a cycle at most: two multiply-adds of vectors of
/// numbers of so many bits.
double peak_operations(const poly::CpuMachine& machine, int bits);

}  // namespace tc
