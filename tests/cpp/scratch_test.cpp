// Memory that kernels get from the host for the copies they make: enough, given back, and a proper
// error where the host has none.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "tc/tc.hpp"

namespace {

namespace tcpp = tensor_comprehensions;

/// A host with threads, whose memory has marked margins and may run out.
class Host {
 public:
  explicit Host(int threads) : threads_(threads) {
    table_ = {this, parallel_for, thread_count, allocate, release, stream};
  }
  const tc_host* get() const { return &table_; }

  int requests = 0;       ///< since the last reset
  int refused = -1;       ///< the request that gets nothing; -1: none
  size_t largest = 1e15;  ///< bytes above which no request gets anything
  int live = 0;           ///< allocations that were not given back
  int spoiled = 0;        ///< allocations whose margins were written to
  bool in_tasks = false;  ///< whether some request came from a task
  void reset() { requests = 0, refused = -1, largest = 1e15, in_tasks = false; }

 private:
  static constexpr size_t kMargin = 64;
  static constexpr unsigned char kMark = 0xA5;

  static void parallel_for(void* context, int64_t count, void (*task)(void*, int64_t, int64_t),
                           void* data) {
    int threads = static_cast<Host*>(context)->threads_;
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
      int64_t begin = count * t / threads, end = count * (t + 1) / threads;
      if (begin == end) continue;
      running.emplace_back([=] {
        inside = true;
        task(data, begin, end);
      });
    }
    for (std::thread& thread : running) thread.join();
  }
  static int32_t thread_count(void* context) { return static_cast<Host*>(context)->threads_; }
  static void* stream(void*, DLDevice) { return nullptr; }

  static void* allocate(void* context, DLDevice, size_t bytes) {
    Host& host = *static_cast<Host*>(context);
    std::lock_guard<std::mutex> lock(host.mutex_);
    host.in_tasks = host.in_tasks || inside;
    if (host.requests++ == host.refused || bytes > host.largest) return nullptr;
    ++host.live;
    size_t whole = (bytes + 2 * kMargin + 63) / 64 * 64;
    auto* start = static_cast<unsigned char*>(std::aligned_alloc(64, whole));
    std::memset(start, kMark, whole);
    std::memcpy(start, &bytes, sizeof bytes);
    // Kernels may not count on zeros.
    std::memset(start + kMargin, 0xFF, bytes);
    return start + kMargin;
  }
  static void release(void* context, DLDevice, void* pointer) {
    Host& host = *static_cast<Host*>(context);
    std::lock_guard<std::mutex> lock(host.mutex_);
    --host.live;
    auto* start = static_cast<unsigned char*>(pointer) - kMargin;
    size_t bytes;
    std::memcpy(&bytes, start, sizeof bytes);
    bool whole = true;
    for (size_t i = sizeof bytes; i < kMargin; ++i) whole = whole && start[i] == kMark;
    for (size_t i = 0; i < kMargin; ++i) whole = whole && start[kMargin + bytes + i] == kMark;
    if (!whole) ++host.spoiled;
    std::free(start);
  }

  static thread_local bool inside;
  const int threads_;
  std::mutex mutex_;
  tc_host table_;
};
thread_local bool Host::inside = false;

struct Case {
  const char* text;
  std::vector<std::vector<int64_t>> inputs;
  bool tasks;           ///< whether tasks that run in parallel make the copies
  bool temporary;       ///< whether the kernel needs other memory too
  bool little = false;  ///< copies that fit on the stack
};

const std::vector<Case> kCases = {
    {"def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
     {{5, 9}, {33, 9}},
     false,
     false,
     true},
    {"def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
     {{100, 20}, {130, 20}},
     false,
     false,
     true},
    {"def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
     {{100, 300}, {130, 300}},
     true,
     false},
    // Two copies at a time.
    {"def f(float(M, K) A, float(N, K) B, float(M, L) D, float(N, L) E) -> (C) {"
     " C(m, n) +=! A(m, k) * B(n, k) C(m, n) += D(m, l) * E(n, l) }",
     {{20, 200}, {65, 200}, {20, 210}, {65, 210}},
     true,
     false},
    {"def f(float(M, K) A, float(N, K) B) -> (C) {"
     " T(m, n) +=! A(m, k) * B(n, k)  C(m, p) +=! T(m, n) * T(p, n) }",
     {{40, 300}, {65, 300}},
     true,
     true},
    // In stretches. No operand is contiguous along any index.
    {"def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, 2 * k) * B(n, 2 * k) }",
     {{35, 40005}, {70, 40005}},
     true,
     false},
};

struct Buffers {
  std::vector<std::vector<float>> values;
  std::vector<tcpp::Tensor> tensors;
};

Buffers make(const std::vector<std::vector<int64_t>>& sizes) {
  Buffers buffers;
  for (const std::vector<int64_t>& size : sizes) {
    int64_t count = 1;
    for (int64_t s : size) count *= s;
    std::vector<float> values(static_cast<size_t>(count));
    // Small integers: sums are exact in every order.
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
    buffers.values.push_back(std::move(values));
  }
  for (size_t b = 0; b < sizes.size(); ++b)
    buffers.tensors.emplace_back(buffers.values[b], sizes[b]);
  return buffers;
}

void test(const Case& c, int threads) {
  Host host(threads);
  tcpp::Definition definition = tcpp::Module(c.text)["f"];
  Buffers in = make(c.inputs);
  Buffers out = make(definition.infer_sizes(in.tensors));
  tcpp::Kernel kernel = tcpp::compile(definition, in.tensors);
  CHECK_HAS(kernel.text("loop_nest"), "  copy\n");

  // Without any schedule there are no copies.
  Buffers expected = make(definition.infer_sizes(in.tensors));
  tcpp::Options identity("identity");
  tcpp::compile(definition, in.tensors, &identity).run(in.tensors, expected.tensors);
  auto works = [&] {
    host.reset();
    std::fill(out.values[0].begin(), out.values[0].end(), -1.0f);
    kernel.run(in.tensors, out.tensors, host.get());
    CHECK(out.values == expected.values);
    CHECK_EQ(host.live, 0);
  };
  works();
  CHECK_EQ(host.in_tasks, c.tasks);
  int requests = host.requests;
  CHECK_EQ(requests == 0, c.little);
  if (c.little) return;

  auto fails = [&](const char* what) {
    try {
      kernel.run(in.tensors, out.tensors, host.get());
      check::record(false, __FILE__, __LINE__, "a run without memory succeeded");
    } catch (const tcpp::UsageError& error) {
      CHECK_HAS(error.what(), what);
      CHECK_HAS(error.what(), " bytes");
    }
    CHECK_EQ(host.live, 0);
  };
  for (int refused = 0; refused < requests; ++refused) {
    host.reset();
    host.refused = refused;
    fails("out of memory: the ");
  }
  host.reset();
  host.largest = 16;
  fails(c.temporary ? "out of memory: the temporary T needs"
                    : "out of memory: the copies of operands need");
  // Nothing is left of the failures.
  works();
  CHECK_EQ(host.spoiled, 0);
}

}  // namespace

int main() {
  // Where copies are made depends on the machine.
  setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,cores=2,cache_bytes=1048576", 1);
  for (const Case& c : kCases)
    for (int threads : {1, 3}) test(c, threads);
  return check::finish();
}
