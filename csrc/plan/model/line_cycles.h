// What lines take on their way through the caches.
#pragma once

#include <array>

#include "machine/cpu.h"

namespace tc::plan {

/// Of what a transfer of lines takes alone, in percent, what is not hidden behind arithmetic, by
/// the cache that they come from: those that copies read, and those that they write and that leave
/// the first cache; and those that results fetch and put back. Fitted to 200 random contractions
/// (benchmarks/model.py), and to seven Plans each of 100 of them, on a Granite Rapids.
struct LineCosts {
  double second, last, memory;
};
constexpr LineCosts kCopied = {72, 115, 115}, kFilled = {100, 0, 0}, kWritten = {0, 55, 85};

/// The same of lines that a loop walks along, and that somebody asks for ahead.
inline LineCosts walked_lines(const CpuMachine& machine) {
  return {machine.walked_line_percent, 65, 85};
}
/// The same of short runs that lie apart.
inline LineCosts spread_lines(const CpuMachine& machine) {
  return {machine.spread_line_percent, 75, 100};
}

/// Cycles that something takes on the way to a cache, by where it comes from.
struct Lines {
  double second = 0, last = 0, memory = 0;
};

/// What is brought to every cache.
using Brought = std::array<double, 3>;

double second_cache_bytes(const CpuMachine& machine);

/// Of so many bytes. A run before left all that is `touched` in the smallest cache that holds it.
Lines cycles_of_bytes(const Brought& bytes, double touched, const LineCosts& costs,
                      const CpuMachine& machine);

/// Of lines of so many bytes on their way to the first cache, where a loop walks along them once.
double cycles_of_lines(double bytes, const CpuMachine& machine);

}  // namespace tc::plan
