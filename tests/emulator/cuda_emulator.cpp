// The runtime of the emulator: fibers, barriers and warp exchanges.
#include "cuda_emulator.h"

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#undef threadIdx
#undef blockIdx

namespace emulator {

Context* current = nullptr;

namespace {

enum class State { Ready, Barrier, Exchange, Done, Failed };

struct Fiber {
  Context context;
  State state;
  bool started;
  bool orders;  ///< of an exchange
  int line;
  unsigned number;  ///< of the thread in its block
  unsigned mask;
  uint64_t mine;
  uint64_t* all;
  Running place;
  char* stack;
  void* stack_pointer;
  void* fake_stack;
#if !defined(__x86_64__)
  ucontext_t ucontext;
#endif
};

/// A block that runs.
struct Block {
  unsigned number = 0;
  unsigned slot = 0;
  unsigned epoch = 0;
  std::vector<Fiber> fibers;
  std::vector<std::vector<unsigned>> meetings;  ///< of each warp
};

constexpr size_t kStackBytes = 128 * 1024;

Fiber* running = nullptr;
const Launch* launch_now = nullptr;
Call call_now = nullptr;
void* const* arguments_now = nullptr;
std::string message;
std::mt19937 random_numbers;

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
  call_now(arguments_now);
  running->state = State::Done;
  yield(true);
  __builtin_unreachable();
}

void resume(Fiber& fiber) {
  running = &fiber;
  current = &fiber.context;
  memory::set_running(&fiber.place);
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
  memory::set_running(nullptr);
}

// ---- blocks

std::string text(const Index& i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

Index index_of(unsigned number, const unsigned* extents) {
  return {number % extents[0], number / extents[0] % extents[1], number / extents[0] / extents[1]};
}

std::string at(const Fiber& fiber) { return "thread " + text(fiber.context.thread); }
std::string in_block(const Fiber& fiber) { return " in block " + text(fiber.context.block); }

void start_moment(const Block& block, Fiber& fiber) {
  const auto& meetings = block.meetings[fiber.number / kWarp];
  fiber.place.moment = memory::new_moment(
      {block.number, fiber.number, block.epoch, static_cast<unsigned>(meetings.size())});
}

/// Lets lanes of a warp go on that wait at one exchange, once all are there that it is for and that
/// have not ended.
bool release_warp(Block& block, size_t first) {
  std::vector<Fiber>& fibers = block.fibers;
  const size_t last = std::min(first + kWarp, fibers.size());
  unsigned alive = 0, waiting = 0;
  for (size_t i = first; i < last; ++i) {
    if (fibers[i].state != State::Done) alive |= 1u << (i - first);
    if (fibers[i].state == State::Exchange) waiting |= 1u << (i - first);
  }
  bool released = false;
  while (waiting) {
    const Fiber& one = fibers[first + size_t(__builtin_ctz(waiting))];
    const bool orders = one.orders;
    unsigned here = 0, wanted = 0;
    for (size_t i = first; i < last; ++i) {
      if (!(waiting >> (i - first) & 1) || fibers[i].line != one.line) continue;
      here |= 1u << (i - first);
      wanted |= fibers[i].mask;
    }
    waiting &= ~here;
    if ((wanted & alive) != here) continue;
    released = true;
    if (orders) block.meetings[first / kWarp].push_back(here);
    uint64_t values[kWarp];
    memset(values, 0xff, sizeof(values));
    for (size_t i = first; i < last; ++i) {
      if (here >> (i - first) & 1) values[i - first] = fibers[i].mine;
    }
    for (size_t i = first; i < last; ++i) {
      if (!(here >> (i - first) & 1)) continue;
      memcpy(fibers[i].all, values, sizeof(values));
      fibers[i].state = State::Ready;
      if (orders) start_moment(block, fibers[i]);
    }
  }
  return released;
}

/// Lets a block go on when all its threads wait at one barrier. False with a message when they
/// never will.
bool release_barrier(Block& block) {
  std::vector<Fiber>& fibers = block.fibers;
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
    ++block.epoch;
    if (launch_now->counts) ++launch_now->counts->barriers;
    for (Fiber& fiber : fibers) {
      fiber.state = State::Ready;
      start_moment(block, fiber);
    }
    return true;
  }
  if (waiting && waiting + done == fibers.size()) {
    message = "barrier divergence: " + std::to_string(waiting) + " of " +
              std::to_string(fibers.size()) + " threads wait at line " + std::to_string(one->line) +
              ", the others have ended" + in_block(*one);
    return false;
  }
  message =
      "deadlock: threads wait for lanes of their warp that wait elsewhere" + in_block(fibers[0]);
  return false;
}

char* stacks() {
  static char* const memory = [] {
    void* mapped = mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
  }();
  return memory;
}

void begin_block(Block& block, unsigned number) {
  const unsigned* extents = launch_now->block;
  const size_t threads = block.fibers.size();
  block.number = number;
  block.epoch = 0;
  block.meetings.assign((threads + kWarp - 1) / kWarp, {});
  memory::begin_block(block.slot, number);
  for (size_t t = 0; t < threads; ++t) {
    Fiber& fiber = block.fibers[t];
    fiber.state = State::Ready;
    fiber.started = false;
    fiber.number = static_cast<unsigned>(t);
    fiber.context = {index_of(fiber.number, extents),
                     index_of(number, launch_now->grid),
                     {extents[0], extents[1], extents[2]},
                     {launch_now->grid[0], launch_now->grid[1], launch_now->grid[2]}};
    fiber.stack = stacks() + (block.slot * threads + t) * kStackBytes;
    fiber.place.slot = block.slot;
    fiber.place.meetings = &block.meetings[t / kWarp];
    start_moment(block, fiber);
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(fiber.stack, kStackBytes);
#endif
  }
}

/// Runs some blocks until the first ends, all threads of theirs in a common order.
bool run_until_one_ends(std::vector<Block*>& blocks, std::vector<Fiber*>& ready) {
  for (;;) {
    ready.clear();
    for (Block* block : blocks) {
      for (Fiber& fiber : block->fibers) {
        if (fiber.state == State::Ready) ready.push_back(&fiber);
      }
    }
    if (launch_now->order == Reverse) std::reverse(ready.begin(), ready.end());
    if (launch_now->order == Shuffled) std::shuffle(ready.begin(), ready.end(), random_numbers);
    for (Fiber* fiber : ready) {
      resume(*fiber);
      if (fiber->state == State::Failed) return false;
    }
    bool ended = false;
    for (Block* block : blocks) {
      const auto all = [&](State state) {
        return std::all_of(block->fibers.begin(), block->fibers.end(),
                           [&](const Fiber& f) { return f.state == state; });
      };
      if (all(State::Done)) {
        ended = true;
        continue;
      }
      bool released = false;
      for (size_t first = 0; first < block->fibers.size(); first += kWarp) {
        released |= release_warp(*block, first);
      }
      const bool goes_on = std::any_of(block->fibers.begin(), block->fibers.end(),
                                       [](const Fiber& f) { return f.state == State::Ready; });
      if (!released && !goes_on && !release_barrier(*block)) return false;
    }
    if (ended) return true;
  }
}

bool run_blocks(size_t threads, size_t count) {
  // Blocks are unordered too. Shuffled ones run side by side.
  const bool shuffled = launch_now->order == Shuffled;
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (launch_now->order == Reverse) std::reverse(numbers.begin(), numbers.end());
  if (shuffled) std::shuffle(numbers.begin(), numbers.end(), random_numbers);
  const size_t slots =
      shuffled ? std::min<size_t>({kMostBlocks, kMostThreads / threads, count}) : 1;
  std::vector<Block> places(slots);
  std::vector<Block*> live;
  std::vector<Fiber*> ready;
  size_t next = 0;
  for (size_t s = 0; s < slots; ++s) {
    places[s].slot = static_cast<unsigned>(s);
    places[s].fibers.resize(threads);
    begin_block(places[s], numbers[next++]);
    live.push_back(&places[s]);
  }
  while (!live.empty()) {
    if (!run_until_one_ends(live, ready)) return false;
    for (size_t i = live.size(); i-- > 0;) {
      Block& block = *live[i];
      const bool done = std::all_of(block.fibers.begin(), block.fibers.end(),
                                    [](const Fiber& f) { return f.state == State::Done; });
      if (!done) continue;
      memory::end_block(block.slot);
      if (next < count)
        begin_block(block, numbers[next++]);
      else
        live.erase(live.begin() + static_cast<long>(i));
    }
  }
  return true;
}

}  // namespace

void barrier(int line) {
  running->state = State::Barrier;
  running->line = line;
  yield();
}

void exchange(unsigned mask, uint64_t mine, uint64_t all[32], bool orders, int line) {
  running->state = State::Exchange;
  running->mask = mask;
  running->mine = mine;
  running->all = all;
  running->orders = orders;
  running->line = line;
  yield();
}

std::string describe(unsigned block, unsigned thread) {
  return "thread " + text(index_of(thread, launch_now->block)) + " of block " +
         text(index_of(block, launch_now->grid));
}

void stop(const std::string& why) {
  message = why;
  running->state = State::Failed;
  yield(true);
  __builtin_unreachable();
}

void fail(const char* what, int line) {
  stop(std::string(what) + " at line " + std::to_string(line) + " by " + at(*running) +
       in_block(*running));
}

void maybe_yield() {
  if (launch_now->order == Shuffled && random_numbers() % 4 == 0) yield();
}

char* shared_array(int which, size_t bytes, size_t element, const char* name) {
  return memory::shared_array(which, bytes, element, name);
}
char* dynamic_shared(const char* name, size_t element) {
  return memory::dynamic_shared(name, element);
}

void atomic_access(void* place, size_t bytes, void* from) {
  maybe_yield();
  memory::watch(place, bytes, true, true, from);
}

const char* run(const Launch& launch, Call call) {
  launch_now = &launch;
  call_now = call;
  message.clear();
  const size_t threads = size_t(launch.block[0]) * launch.block[1] * launch.block[2];
  const size_t blocks = size_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  if (threads == 0 || threads > 1024) {
    message = "a block of " + std::to_string(threads) + " threads";
    return message.c_str();
  }
  if (!stacks()) return "no memory for the stacks of the threads";
  random_numbers.seed(launch.seed);
  std::vector<char*> pointers;
  memory::begin(launch, pointers, reinterpret_cast<const void*>(call));
  std::vector<void*> arguments;
  for (size_t i = 0; i < launch.argument_count; ++i) {
    const bool placed = launch.arrays && launch.arrays[i].data;
    arguments.push_back(placed ? static_cast<void*>(&pointers[i]) : launch.arguments[i]);
  }
  // The driver does not say how many arguments there are.
  arguments_now = launch.arrays ? arguments.data() : launch.arguments;
  if (launch.counts) *launch.counts = {};
  if (launch.counts) launch.counts->threads = threads * blocks;
  const bool good = run_blocks(threads, blocks);
  memory::end();
  return good ? nullptr : message.c_str();
}

}  // namespace emulator
