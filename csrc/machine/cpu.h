// What decisions for the CPU depend on: numbers of a processor, each with its unit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace tc {

/// The defaults are those of a processor that nothing is known of. `machine/facts.h` says where the
/// numbers of the one at hand come from.
struct CpuMachine {
  // ---- arithmetic, of a core
  int vector_bits = 128;
  /// Of the units that do arithmetic: a wider vector passes through in parts.
  int unit_bits = 128;
  int vector_registers = 16;
  int multiply_adds = 2;  ///< vectors of units that are started in a cycle
  /// The same of vectors of sums of neighbouring products (isa/dot_products); 0: it has none.
  int dot_products = 0;
  int loads = 2;                ///< the same
  double multiply_latency = 4;  ///< cycles from a multiply-add to the next one that needs it
  /// Cycles from a division of 256 bits of floats to the next one, other units going on meanwhile.
  double division_cycles = 5;

  // ---- memory
  /// Of what newer processors have more (48 KiB and 12 places), decisions make no use yet.
  int64_t first_cache_bytes = 32 * 1024;
  int64_t first_cache_ways = 8;      ///< lines that a set has places for
  int64_t cache_bytes = 512 * 1024;  ///< for copies of operands: half a second-level cache
  int64_t last_cache_bytes = 0;      ///< 0: unknown
  /// Of what a unit takes in a cycle, what comes from beyond the first cache (measured with vectors
  /// of 8: 1024 x 1024 x 1024 in blocks of 6 x 16, which need half of that, 1.28 times faster than
  /// in 3 x 24, which need all; 4 images of 1024 x 196 with 256 filters, 4 times faster in 6 x 16
  /// than in 2 x 4 x 8).
  double second_cache_percent = 72;
  /// Of the time of a line from the second cache, what is not hidden behind arithmetic: where a
  /// loop walks along lines, and where short runs of them lie apart (fitted to 200 random
  /// contractions, benchmarks/model.py, and to seven Plans each of 100 of them, on a Granite
  /// Rapids).
  double walked_line_percent = 45, spread_line_percent = 80;
  /// Bytes a cycle that the last cache gives a core (measured with a Xeon: 4 images of 1024 x 196
  /// with 256 filters 1.3 times faster one by one, though copies are made anew for each).
  double last_cache_rate = 10;
  /// Of a temporary of which each iteration has a slice of its own, to be of use for the caches.
  int64_t private_bytes = int64_t{1} << 20;
  /// Of memory that is mapped as one: processors read nothing ahead beyond its end.
  int64_t page_bytes = 4096;
  /// From one access of an instruction to the next, where a core expects it (Intel's optimization
  /// manual: up to 2 KiB).
  int64_t followed_bytes = 2048;
  /// Lines that may be on their way to the first cache: 12 in a Skylake, 16 in a Golden Cove.
  int line_buffers = 16;
  /// Of the last cache, what a core finds its data in: others share it, on other cores and in other
  /// virtual machines.
  int64_t last_cache_share = int64_t{32} << 20;
  /// Bytes a cycle that a core gets from memory (measured with a Granite Rapids: sums of 55 to 250
  /// MiB take 14 to 24 cycles a line).
  double memory_rate = 4;
  /// Neighbouring lines that come with a prefetch of the first; 1: that one alone.
  int lines_of_a_request = 1;

  // ---- prefetch distances (benchmarks/prefetches.md)
  /// Steps of a loop through rows that lie far apart.
  int64_t steps_ahead = 8;
  /// Of rows at places that data says, which go to the second cache: that waits for more lines at
  /// once than the first. How many requests that may be.
  int64_t rows_ahead = 32, requests_ahead = 128;
  /// Of rows no longer than so many bytes, which go to the first cache too, shortly before use.
  int64_t short_rows_ahead = 8, short_row_bytes = 256;

  // ---- what code of ours takes, in cycles (measured with a Granite Rapids, benchmarks/model.py)
  double task_cycles = 100;             ///< to begin a task
  double block_cycles = 50;             ///< to begin a block of results in registers, and to end it
  double loop_cycles = 10;              ///< to begin a loop over elements
  double spilled_vector_cycles = 1.75;  ///< a vector without a register, in a step of a block
  double copied_element_cycles = 1.4;   ///< of a copy, an element that is loaded alone
  double copied_vector_cycles = 9;      ///< a vector that lies alike on both sides
  double transposed_row_cycles = 2.2;   ///< a row of a square that is transposed in registers
  /// A result that does not lie along the vector: in a run that is transposed in registers, alone,
  /// and alone on another page than the one before, for which a line of memory is fetched again.
  double transposed_store_cycles = 0.6, scattered_store_cycles = 2, far_store_cycles = 14;
  double lanes_sum_cycles = 4;  ///< to add up the lanes of a sum
  /// A lane of a vector that is loaded by itself and put into its place: where lanes lie at a
  /// distance that is known, where a table has their places side by side, and where they lie
  /// anywhere.
  double strided_lane_cycles = 1, table_lane_cycles = 1, gathered_lane_cycles = 1;
  /// From the last terms of a sum of lanes to what waits for it; and of work that a core looks
  /// ahead in, meanwhile (measured with a Zen 4, benchmarks/thresholds.md).
  double waited_sum_cycles = 27, window_cycles = 80;
  /// A vector of terms of a sum along a row, and to add up its lanes while the next row begins.
  double row_sum_cycles = 0.6, row_end_cycles = 6;
  /// A point of a scatter whose row is no vector, one lane of one that is, a look at a place that
  /// may be another's, a branch that was guessed wrong, and the start of tasks on all cores.
  double scattered_point_cycles = 3, scattered_lane_cycles = 0.4, look_cycles = 1,
         wrong_guess_cycles = 20, tasks_cycles = 20000;
  double statement_cycles = 300;        ///< the loops of a statement of its own, all together
  double written_element_cycles = 1.7;  ///< to write an element of a temporary, and to read it

  // ---- cores
  int cores = 1;
  /// Of the host that compiles, where the number is known to matter; no more than cores.
  int threads = 1;

  // ---- the framework's library
  /// Operations a cycle of a library's products and convolutions; 0: measured where it matters.
  double library_rate = 0;
  /// From generated code through the framework's dispatcher to the library: some 3 microseconds.
  double library_call_cycles = 10000;

  /// Tests, whose programs are small, lower it so that these take every path.
  int64_t least_percent = 100;

  /// Of a vector, what a unit takes at a time.
  int step_bits() const { return std::min(vector_bits, unit_bits); }
  /// Bytes a cycle.
  double second_cache_rate() const { return second_cache_percent / 100 * step_bits() / 8; }
  /// Cycles of a division of a vector of so many bits.
  double cycles_of_division(double bits) const { return division_cycles * bits / 256; }
  /// Sums that are under way in a loop, so that none waits for another.
  int sums_in_flight() const { return static_cast<int>(multiply_adds * multiply_latency); }
  /// Lines that are prefetched together at most, which leaves as many to others: more wait.
  int64_t lines_at_once() const { return std::max(1, line_buffers / 2); }
  /// From how much of something on a task, a part, a copy or a table of its own pays.
  int64_t least(int64_t amount) const { return std::max<int64_t>(1, amount * least_percent / 100); }
  /// The same as a factor.
  double least_part() const { return static_cast<double>(least_percent) / 100; }
  /// Floating-point operations that a core starts in a cycle at most, on numbers of so many bits.
  double peak_operations(int bits) const { return 2.0 * multiply_adds * step_bits() / bits; }
};

/// Of the vectors that a register tile with so many points along them has: all of a register, or
/// the largest power of 2 that the points fill. The last vector overlaps the one in front of it
/// where they are no multiple.
inline int lanes_of_block(int64_t points, int lanes) {
  while (lanes > points && lanes > 1) lanes /= 2;
  return lanes;
}

/// "512-bit vectors, 32 registers, 2 cores, 512 KiB of cache for copies".
std::string to_string(const CpuMachine& cpu);

}  // namespace tc
