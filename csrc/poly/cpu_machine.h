// What decisions for the CPU depend on.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tc::poly {

/// What the mapping must know of the processor.
struct CpuMachine {
  int vector_bits = 128;
  /// Of the units that do arithmetic, two of them in a core: a wider vector passes through in
  /// parts.
  int unit_bits = 128;
  int vector_registers = 16;
  int cores = 1;
  /// Of the host that compiles, where the number is known to matter; no more than cores.
  int threads = 1;
  int64_t cache_bytes = 512 * 1024;  ///< for copies of operands: half a second-level cache
  int64_t last_cache_bytes = 0;      ///< 0: unknown
  /// Operations a cycle of a library's products and convolutions; 0: measured where it matters.
  double library_rate = 0;
  /// From generated code through the framework's dispatcher to the library: some 3 microseconds.
  double library_call_cycles = 10000;
  /// Tests, whose programs are small, lower it so that these take every path.
  int64_t least_percent = 100;

  /// Of a vector, what a unit takes at a time.
  int step_bits() const { return std::min(vector_bits, unit_bits); }
  /// From how much of something on a task, a part, a copy or a table of its own pays.
  int64_t least(int64_t amount) const { return std::max<int64_t>(1, amount * least_percent / 100); }
};

}  // namespace tc::poly
