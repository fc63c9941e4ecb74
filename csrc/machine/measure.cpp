#include "machine/measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/memory.h"
#include "machine/measurements.h"

namespace tc::machine {
namespace {

/// Of work of this thread: others may have the core meanwhile.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of the fastest of several runs.
double best_thread_seconds(const std::function<void()>& run, int rounds = 7) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const double start = thread_seconds();
    run();
    best = std::min(best, thread_seconds() - start);
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
  const double seconds = best_thread_seconds([&] {
    kept += read_lines(vectors, lines, times);
    use(kept);
  });
  return static_cast<double>(bytes * times) / (seconds / seconds_per_cycle());
}

/// Goes through memory from line to line, so many ways at once, to where each says.
template <int kWays>
double follow(const std::vector<Line>& memory, const std::vector<int64_t>& starts) {
  int64_t places[kWays];
  auto next = [&](int64_t place) {
    return *reinterpret_cast<const int64_t*>(memory[static_cast<size_t>(place)].bytes);
  };
  const auto steps = static_cast<int64_t>(memory.size()) / kWays;
  const double seconds = best_thread_seconds([&] {
    std::copy_n(starts.begin(), kWays, places);
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t& place : places) place = next(place);
    use(places[0]);
  });
  return seconds / static_cast<double>(steps * kWays);
}

/// Of memory beyond the second cache, in no order: the time of a line that nothing else waits for,
/// over that of one of many.
double lines_on_their_way(int64_t bytes) {
  constexpr int kMany = 32;
  std::vector<Line> memory = make_lines(static_cast<size_t>(bytes));
  const auto lines = static_cast<int64_t>(memory.size());
  std::vector<int64_t> order(memory.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (int64_t k = 0; k < lines; ++k)
    std::memcpy(memory[static_cast<size_t>(order[static_cast<size_t>(k)])].bytes,
                &order[static_cast<size_t>((k + 1) % lines)], sizeof(int64_t));
  std::vector<int64_t> starts;
  for (int64_t way = 0; way < kMany; ++way)
    starts.push_back(order[static_cast<size_t>(way * lines / kMany)]);
  return follow<1>(memory, starts) / follow<kMany>(memory, starts);
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
    const double seconds = best_thread_seconds([] { spend_cycles(kAdditions); }, kRounds);
    return std::vector<double>{seconds / kAdditions};
  })[0];
}

std::vector<double> best_seconds(const std::vector<std::function<void()>>& runs) {
  // A library's convolution of 512 channels took 7.2 ms the third time, 5.7 from the tenth on.
  constexpr int kRounds = 4, kRoundsIfNear = 12, kMostRounds = 100;
  constexpr double kEnough = 5e-3, kNear = 1.15;
  std::vector<double> best(runs.size(), std::numeric_limits<double>::infinity());
  double total = 0;
  auto enough = [&](int round) {
    auto [least, most] = std::minmax_element(best.begin(), best.end());
    bool near = runs.size() > 1 && *most < kNear * *least;
    return round >= (near ? kRoundsIfNear : kRounds) && total >= kEnough;
  };
  for (int round = 0; round < kMostRounds && !enough(round); ++round)
    for (size_t k = 0; k < runs.size(); ++k) {
      const auto start = std::chrono::steady_clock::now();
      runs[k]();
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best[k] = std::min(best[k], seconds);
      total += seconds / static_cast<double>(runs.size());
    }
  return best;
}

std::map<std::string, double> measure(const CpuMachine& cpu) {
  std::map<std::string, double> found;
  constexpr int64_t kSteps = 1 << 18;
  float values[3] = {1, 0.5F, 1};
  found["multiply_latency"] = best_thread_seconds([&] {
                                chain(kSteps, values);
                                use(values[0]);
                              }) /
                              seconds_per_cycle() / kSteps;
  const double unit_bytes = cpu.step_bits() / 8.0;
  found["loads"] = read_rate(cpu.first_cache_bytes / 2) / unit_bytes;
  found["second_cache_percent"] = 100 * read_rate(cpu.cache_bytes) / unit_bytes;
  found["line_buffers"] = lines_on_their_way(4 * cpu.cache_bytes);
  if (cpu.last_cache_bytes > 0) {
    // A quarter, which neighbours on a shared cache leave.
    const int64_t bytes = std::max(4 * cpu.cache_bytes, cpu.last_cache_bytes / 4);
    found["last_cache_rate"] = read_rate(bytes);
  }
  return found;
}

}  // namespace tc::machine
