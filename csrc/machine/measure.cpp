#include "machine/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/memory.h"
#include "machine/measurements.h"

namespace tc::machine {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the fastest of several runs.
double best_seconds(const std::function<void()>& run, int rounds = 7) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// One copy for each width of vectors; the one for this processor is chosen when it is called.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TC_EVERY_WIDTH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TC_EVERY_WIDTH
#endif

using Vector = float __attribute__((vector_size(64)));

/// Keeps the compiler from knowing or dropping a value.
template <class T>
inline void use(T& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

/// Multiply-adds that each need the one before.
TC_EVERY_WIDTH void chain(int64_t steps, float* in_out) {
  float value = in_out[0], factor = in_out[1], addend = in_out[2];
  for (int64_t i = 0; i < steps; ++i) value = __builtin_fmaf(value, factor, addend);
  in_out[0] = value;
}

/// Reads all lines of some memory, so many times.
TC_EVERY_WIDTH float read_lines(const Vector* memory, int64_t lines, int64_t times) {
  constexpr int64_t kAtOnce = 8;
  Vector sums[kAtOnce] = {};
  for (int64_t time = 0; time < times; ++time) {
    asm volatile("" : : "r"(memory) : "memory");
    for (int64_t line = 0; line + kAtOnce <= lines; line += kAtOnce) {
#pragma GCC unroll 8
      for (int64_t k = 0; k < kAtOnce; ++k) sums[k] += memory[line + k];
    }
  }
  float total = 0;
  for (const Vector& sum : sums)
    for (int lane = 0; lane < 16; ++lane) total += sum[lane];
  return total;
}

/// Bytes a cycle from memory of that size, read again and again.
double read_rate(int64_t bytes) {
  std::vector<Line> memory = make_lines(static_cast<size_t>(bytes));
  const auto* vectors = reinterpret_cast<const Vector*>(memory.data());
  const int64_t lines = bytes / kLineBytes;
  const int64_t times = std::max<int64_t>(2, (int64_t{64} << 20) / bytes);
  float kept = read_lines(vectors, lines, 1);
  const double seconds = best_seconds([&] {
    kept += read_lines(vectors, lines, times);
    use(kept);
  });
  return static_cast<double>(bytes * times) / (seconds / seconds_per_cycle());
}

}  // namespace

void spend_cycles(int64_t cycles) {
  uint64_t value = 1, step = 3;
  // Golden Cove adds numbers that are part of the instruction while it renames registers, several
  // in a cycle, though each needs the one before.
  asm volatile("" : "+r"(step));
  for (int64_t i = 0; i < cycles / 16; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      // Every addition needs the one before; the compiler must not add them up.
      value += step;
      asm volatile("" : "+r"(value));
    }
  }
}

double seconds_per_cycle() {
  return measure_once("seconds of a cycle", [] {
    constexpr int kRounds = 5, kAdditions = 1 << 15;
    const double seconds = best_seconds([] { spend_cycles(kAdditions); }, kRounds);
    return std::vector<double>{seconds / kAdditions};
  })[0];
}

std::map<std::string, double> measure(const CpuMachine& cpu) {
  std::map<std::string, double> found;
  constexpr int64_t kSteps = 1 << 18;
  float values[3] = {1, 0.5F, 1};
  found["multiply_latency"] = best_seconds([&] {
                                chain(kSteps, values);
                                use(values[0]);
                              }) /
                              seconds_per_cycle() / kSteps;
  const double unit_bytes = cpu.step_bits() / 8.0;
  found["loads"] = read_rate(cpu.first_cache_bytes / 2) / unit_bytes;
  found["second_cache_percent"] = 100 * read_rate(cpu.cache_bytes) / unit_bytes;
  if (cpu.last_cache_bytes > 0) {
    // A quarter, which neighbours on a shared cache leave.
    const int64_t bytes = std::max(4 * cpu.cache_bytes, cpu.last_cache_bytes / 4);
    found["last_cache_rate"] = read_rate(bytes);
  }
  return found;
}

}  // namespace tc::machine
