// Measures facts of the processor at hand, to see whether what was looked up or assumed is right.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "machine/cpu.h"

namespace tc::machine {

/// Adds integers, each to the sum before, which takes so many cycles of the clock, rounded down to
/// 16.
void spend_cycles(int64_t cycles);

/// Seconds that a dependent addition of integers takes: a cycle of the clock at which work runs.
double seconds_per_cycle();

/// Facts that can be measured, by their names in `facts()`, on one core. Takes some seconds.
std::map<std::string, double> measure(const CpuMachine& cpu);

}  // namespace tc::machine
