// Kernels in children of fork.
#pragma once

namespace tc_torch {

/// Whether the calling thread forked from a process with further threads. The team that OpenMP kept
/// for it is gone, and OpenMP would wait for it for ever, as PyTorch's own operators do there: what
/// the thread runs it has to run alone. Threads that a child starts have teams of their own.
bool lost_its_team();

}  // namespace tc_torch
