// Measures facts of the processor at hand, to see whether what was looked up or assumed is right.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "machine/cpu.h"

namespace tc::machine {

/// Adds integers, each to the sum before, which takes so many cycles of the clock, rounded down to
/// 16.
void spend_cycles(int64_t cycles);

/// Seconds that a dependent addition of integers takes: a cycle of the clock at which work runs.
double seconds_per_cycle();

/// Seconds by the clock of the fastest of several runs of each: four, more of short ones and of
/// those that come near each other. They take turns, since a machine changes its pace.
std::vector<double> best_seconds(const std::vector<std::function<void()>>& runs);

/// Facts that can be measured, by their names in `facts()`, on one core. Takes some seconds.
std::map<std::string, double> measure(const CpuMachine& cpu);

}  // namespace tc::machine
