// The memory of a launch and what happened to it. The text of a kernel is compiled with
// -fsanitize=thread and without its library: the calls in front of every access (__tsan_read4 ...)
// arrive here, so that races are seen in whatever order the threads run.
#pragma once

#include <string>
#include <vector>

#include "launch.h"

namespace emulator {

/// Blocks that run at once, and threads in them.
constexpr unsigned kMostBlocks = 8, kMostThreads = 2048;
constexpr unsigned kWarp = 32;

/// A stretch of a thread's run that no barrier interrupts. Two accesses are ordered where a barrier
/// stands between their moments.
struct Moment {
  unsigned block;    ///< number in the grid
  unsigned thread;   ///< number in the block
  unsigned epoch;    ///< barriers that the block has passed
  unsigned meeting;  ///< how often the lanes of its warp have met by __syncwarp
};

/// The thread that runs now.
struct Running {
  unsigned moment = 0;                              ///< number of its moment
  unsigned slot = 0;                                ///< of the places for blocks that run at once
  const std::vector<unsigned>* meetings = nullptr;  ///< masks of lanes that met, in this warp
};

/// Guarded copies of the arrays, shared memory, and the history of both.
namespace memory {

/// Places the arrays; `pointers` receives where each lies.
void begin(const Launch& launch, std::vector<char*>& pointers, const void* code);
/// Copies the arrays back, and what was written into `defined`.
void end();

/// A new block runs in a slot: its shared arrays are made anew.
void begin_block(unsigned slot, unsigned block);
/// Counts what the block has asked for.
void end_block(unsigned slot);

unsigned new_moment(const Moment& moment);
/// Which thread's accesses arrive; null for none.
void set_running(const Running* running);

char* shared_array(int which, size_t bytes, size_t element, const char* name);
char* dynamic_shared(const char* name, size_t element);

/// An access of the thread that runs, by the code that returns to `from`.
void watch(void* address, size_t bytes, bool writes, bool atomic, void* from);

}  // namespace memory

/// "thread (1, 0, 0) of block (0, 2, 0)".
std::string describe(unsigned block, unsigned thread);
/// Leaves the fiber that runs with a message.
[[noreturn]] void stop(const std::string& message);
/// Lets others run before an atomic access, now and then.
void maybe_yield();

}  // namespace emulator
