// The runtime of the emulator: fibers, barriers, warp exchanges, and CUDA's own functions.
#include "cuda_emulator.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#undef threadIdx
#undef blockIdx

namespace emulator {

Context* current = nullptr;
char* dynamic_memory = nullptr;

namespace {

enum class State { Ready, Barrier, Exchange, Done, Failed };

struct Fiber {
  Context context;
  State state = State::Ready;
  int line = 0;
  unsigned mask = 0;
  uint64_t mine = 0;
  uint64_t* all = nullptr;
  char* stack = nullptr;
  void* stack_pointer = nullptr;
  bool started = false;
  void* fake_stack = nullptr;
  ucontext_t ucontext;
};

constexpr size_t kStackBytes = 128 * 1024;

std::vector<Fiber> fibers;
Fiber* running = nullptr;
const Launch* launch_now = nullptr;
std::string message;

// ---- switching between the scheduler and a fiber

#if defined(__x86_64__)
// Saves what the calling convention keeps, and goes on where the other stack stopped.
extern "C" void emulator_switch(void** save, void* to);
asm(R"(.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch,.-emulator_switch)");
void* scheduler_pointer;
#else
ucontext_t scheduler_context;
#endif

// AddressSanitizer must be told of every change of stack.
#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack;
size_t scheduler_stack_bytes;
void* scheduler_fake_stack;
void leave(void** fake, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, stack, bytes);
}
void arrive(void* fake, const void** from, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, from, bytes);
}
#define TO_SCHEDULER(last) \
  leave((last) ? nullptr : &running->fake_stack, scheduler_stack, scheduler_stack_bytes)
#define IN_FIBER() arrive(running->fake_stack, &scheduler_stack, &scheduler_stack_bytes)
#define TO_FIBER(fiber) leave(&scheduler_fake_stack, (fiber).stack, kStackBytes)
#define IN_SCHEDULER() arrive(scheduler_fake_stack, nullptr, nullptr)
#else
#define TO_SCHEDULER(last)
#define IN_FIBER()
#define TO_FIBER(fiber)
#define IN_SCHEDULER()
#endif

void yield([[maybe_unused]] bool last = false) {
  Fiber* self = running;
  TO_SCHEDULER(last);
#if defined(__x86_64__)
  emulator_switch(&self->stack_pointer, scheduler_pointer);
#else
  swapcontext(&self->ucontext, &scheduler_context);
#endif
  IN_FIBER();
}

void fiber_main() {
  IN_FIBER();
  launch_now->call(launch_now->arguments);
  running->state = State::Done;
  yield(true);
  __builtin_unreachable();
}

void resume(Fiber& fiber) {
  running = &fiber;
  current = &fiber.context;
  TO_FIBER(fiber);
#if defined(__x86_64__)
  if (!fiber.started) {
    fiber.started = true;
    auto** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(fiber.stack + kStackBytes) &
                                          ~uintptr_t(15));
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.stack_pointer = top;
  }
  emulator_switch(&scheduler_pointer, fiber.stack_pointer);
#else
  if (!fiber.started) {
    fiber.started = true;
    getcontext(&fiber.ucontext);
    fiber.ucontext.uc_stack.ss_sp = fiber.stack;
    fiber.ucontext.uc_stack.ss_size = kStackBytes;
    fiber.ucontext.uc_link = nullptr;
    makecontext(&fiber.ucontext, fiber_main, 0);
  }
  swapcontext(&scheduler_context, &fiber.ucontext);
#endif
  IN_SCHEDULER();
}

// ---- blocks

/// Bytes of 0xff: NaN in every float type, -1 in the integers. A plain loop, since an intercepted
/// memset would stop at the red zones between the arrays.
__attribute__((no_sanitize("address"), noinline, optimize("no-tree-loop-distribute-patterns"))) void
poison(char* begin, char* end) {
  for (; begin < end; ++begin) *begin = char(0xff);
}

std::string at(const Fiber& fiber) {
  const Index& t = fiber.context.thread;
  return "thread (" + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " +
         std::to_string(t.z) + ")";
}

std::string in_block(const Fiber& fiber) {
  const Index& b = fiber.context.block;
  return " in block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " +
         std::to_string(b.z) + ")";
}

/// Lets a warp go on whose living lanes all wait at one exchange.
bool release_warp(size_t first) {
  const size_t last = std::min(first + 32, fibers.size());
  unsigned waiting = 0, alive = 0, wanted = 0;
  int line = 0;
  for (size_t i = first; i < last; ++i) {
    const Fiber& fiber = fibers[i];
    if (fiber.state != State::Done) alive |= 1u << (i - first);
    if (fiber.state == State::Exchange) {
      waiting |= 1u << (i - first);
      wanted |= fiber.mask;
      if (line && line != fiber.line) return false;
      line = fiber.line;
    }
  }
  if (last - first < 32) wanted &= (1u << (last - first)) - 1;
  if (!waiting || (wanted & alive) != waiting) return false;
  uint64_t values[32];
  poison(reinterpret_cast<char*>(values), reinterpret_cast<char*>(values + 32));
  for (size_t i = first; i < last; ++i) {
    if (waiting >> (i - first) & 1) values[i - first] = fibers[i].mine;
  }
  for (size_t i = first; i < last; ++i) {
    if (!(waiting >> (i - first) & 1)) continue;
    memcpy(fibers[i].all, values, sizeof(values));
    fibers[i].state = State::Ready;
  }
  return true;
}

/// Lets the block go on when all its threads wait at one barrier. False with a message when they
/// never will.
bool release_barrier(bool progressed) {
  size_t waiting = 0, done = 0;
  const Fiber *one = nullptr, *other = nullptr;
  for (const Fiber& fiber : fibers) {
    if (fiber.state == State::Done) ++done;
    if (fiber.state != State::Barrier) continue;
    ++waiting;
    if (!one) one = &fiber;
    if (fiber.line != one->line) other = &fiber;
  }
  if (waiting + done == fibers.size() && other) {
    message = "barrier divergence: " + at(*one) + " waits at line " + std::to_string(one->line) +
              ", " + at(*other) + " at line " + std::to_string(other->line) + in_block(*one);
    return false;
  }
  if (waiting == fibers.size()) {
    for (Fiber& fiber : fibers) fiber.state = State::Ready;
    return true;
  }
  if (waiting && waiting + done == fibers.size()) {
    message = "barrier divergence: " + std::to_string(waiting) + " of " +
              std::to_string(fibers.size()) + " threads wait at line " + std::to_string(one->line) +
              ", the others have ended" + in_block(*one);
    return false;
  }
  if (!progressed && done < fibers.size()) {
    message =
        "deadlock: threads wait for lanes of their warp that wait elsewhere" + in_block(fibers[0]);
    return false;
  }
  return true;
}

bool run_block(std::vector<int>& order, std::mt19937& random) {
  for (;;) {
    if (launch_now->order == 2) std::shuffle(order.begin(), order.end(), random);
    bool progressed = false;
    for (int i : order) {
      if (fibers[i].state != State::Ready) continue;
      progressed = true;
      resume(fibers[i]);
      if (fibers[i].state == State::Failed) return false;
    }
    for (size_t first = 0; first < fibers.size(); first += 32) {
      progressed |= release_warp(first);
    }
    if (std::all_of(fibers.begin(), fibers.end(),
                    [](const Fiber& f) { return f.state == State::Done; })) {
      return true;
    }
    if (std::any_of(fibers.begin(), fibers.end(),
                    [](const Fiber& f) { return f.state == State::Ready; })) {
      continue;
    }
    if (!release_barrier(progressed)) return false;
  }
}

}  // namespace

void barrier(int line) {
  running->state = State::Barrier;
  running->line = line;
  yield();
}

void exchange(unsigned mask, uint64_t mine, uint64_t all[32], int line) {
  running->state = State::Exchange;
  running->mask = mask;
  running->mine = mine;
  running->all = all;
  running->line = line;
  yield();
}

void fail(const char* what, int line) {
  message = std::string(what) + " at line " + std::to_string(line) + " by " + at(*running) +
            in_block(*running);
  running->state = State::Failed;
  yield(true);
  __builtin_unreachable();
}

const char* run(const Launch& launch) {
  launch_now = &launch;
  message.clear();
  const unsigned *grid = launch.grid, *block = launch.block;
  const size_t threads = size_t(block[0]) * block[1] * block[2];
  if (threads == 0 || threads > 1024) {
    message = "a block of " + std::to_string(threads) + " threads";
    return message.c_str();
  }
  static char* stacks = nullptr;
  if (!stacks) {
    void* memory = mmap(nullptr, 1024 * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return "no memory for the stacks of 1024 threads";
    stacks = static_cast<char*>(memory);
  }
  const std::unique_ptr<char[]> dynamic(new char[launch.dynamic_shared_bytes]);
  dynamic_memory = dynamic.get();
  std::vector<int> order(threads);
  std::iota(order.begin(), order.end(), 0);
  if (launch.order == 1) std::reverse(order.begin(), order.end());
  std::mt19937 random(launch.seed);
  const unsigned long long blocks = 1ull * grid[0] * grid[1] * grid[2];
  for (unsigned long long b = 0; b < blocks; ++b) {
    // Blocks are unordered too.
    const unsigned long long k = launch.order == 0 ? b : blocks - 1 - b;
    const Index index = {unsigned(k % grid[0]), unsigned(k / grid[0] % grid[1]),
                         unsigned(k / grid[0] / grid[1])};
    poison(launch.shared_begin, launch.shared_end);
    poison(dynamic_memory, dynamic_memory + launch.dynamic_shared_bytes);
    fibers.assign(threads, Fiber());
    for (size_t t = 0; t < threads; ++t) {
      fibers[t].context = {{unsigned(t % block[0]), unsigned(t / block[0] % block[1]),
                            unsigned(t / block[0] / block[1])},
                           index,
                           {block[0], block[1], block[2]},
                           {grid[0], grid[1], grid[2]}};
      fibers[t].stack = stacks + t * kStackBytes;
#if defined(__SANITIZE_ADDRESS__)
      ASAN_UNPOISON_MEMORY_REGION(fibers[t].stack, kStackBytes);
#endif
    }
    if (!run_block(order, random)) return message.c_str();
  }
  return nullptr;
}

}  // namespace emulator

// ---- CUDA's functions

namespace {

/// The x where `f` rises or falls through `y`, by bisection: slow, and right to the last bits.
double invert(double (*f)(double), double y, double low, double high, bool rising) {
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    ((f(middle) < y) == rising ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Modified Bessel function of the first kind by its power series, which has no cancellation.
double bessel_i(int n, double x) {
  double term = n == 0 ? 1 : x / 2, sum = term;
  for (int k = 1; k < 2000 && std::abs(term) > 1e-18 * std::abs(sum); ++k) {
    term *= (x / 2) * (x / 2) / (double(k) * (k + n));
    sum += term;
  }
  return sum;
}

}  // namespace

extern "C" {
double rsqrt(double x) { return 1 / sqrt(x); }
double rcbrt(double x) { return 1 / cbrt(x); }
double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
double erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? HUGE_VAL : y == -1 ? -HUGE_VAL : NAN;
  return y < 0 ? -invert(erf, -y, 0, 7, true) : invert(erf, y, 0, 7, true);
}
double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : NAN;
  return invert(erfc, y, -7, 28, false);
}
double erfcx(double x) {
  if (x < 20) return exp(x * x) * erfc(x);
  const double r = 1 / (x * x);
  return (1 - r / 2 * (1 - 1.5 * r * (1 - 2.5 * r))) / (x * sqrt(M_PI));
}
double normcdf(double x) { return 0.5 * erfc(-x / M_SQRT2); }
double normcdfinv(double y) { return -M_SQRT2 * erfcinv(2 * y); }
double cyl_bessel_i0(double x) { return bessel_i(0, x); }
double cyl_bessel_i1(double x) { return bessel_i(1, x); }
double rhypot(double a, double b) { return 1 / hypot(a, b); }
double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
}
