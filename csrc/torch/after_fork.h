// Kernels in children of fork.
#pragma once

namespace tc_torch {

/// Whether the calling thread forked from a process with further threads. The team that OpenMP kept
/// for it is gone, and OpenMP would wait for it for ever, as PyTorch's own operators do there: what
/// the thread runs it has to run alone. Threads that a child starts have teams of their own.
bool lost_its_team();

/// Keeps a library to one thread while it lives, where there is no team.
class AloneIfForked {
 public:
  AloneIfForked();
  ~AloneIfForked();
  AloneIfForked(const AloneIfForked&) = delete;
  AloneIfForked& operator=(const AloneIfForked&) = delete;

 private:
  int threads_ = 0;  ///< to be set again; 0: none
};

}  // namespace tc_torch
