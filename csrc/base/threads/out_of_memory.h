// Memory that runs out inside of a task costs the task, not the process.
//
// An exception cannot leave everything that a compilation calls: Halide builds expressions in
// functions that are noexcept, LLVM is compiled without exceptions and aborts, and so does GMP. So
// a task has a reserve. The first allocation that fails gives it back and cancels the task, which
// goes on to its next step and ends there in good order. If even that is too far, the task's thread
// stops where it is for ever, with what it holds, and who waits is told.
#pragma once

namespace tc {

/// Prepares the process, once, and gives the calling thread, that of a task, its reserve.
void reserve_memory();
/// Gives it back.
void release_reserve();

}  // namespace tc
