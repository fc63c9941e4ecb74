// How many kernels the operators of this process keep.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "tc/tc.h"

namespace tc_torch {

class Operator;

/// Forgets the kernels that were used least recently when there are too many. Time is counted in
/// kernels that were compiled, so that a call costs no more than a load and a store.
class KernelLimit {
 public:
  struct Info {
    int64_t kernels = 0, bytes = 0;  ///< that operators keep now
    int64_t most_kernels = 0, most_bytes = 0;
    int64_t compiled = 0, dropped = 0;  ///< since the process began
  };

  void add(Operator& op);
  void remove(Operator& op);
  uint64_t now() const { return clock_.load(std::memory_order_relaxed); }
  /// One more kernel was compiled.
  void tick() { ++clock_; }

  /// Negative numbers leave a limit as it is.
  void set(int64_t kernels, int64_t bytes);
  Info info();
  void trim();
  /// Forgets all kernels, and frees what memory their runs have left.
  void clear();
  /// Those of definitions with one of these keys (see tc_definition_key): they are compiled again,
  /// with what is known of them by then.
  void drop_definitions(const std::vector<std::string>& keys);

 private:
  friend KernelLimit& kernel_limit();
  KernelLimit() = default;
  void drop_until(int64_t kernels, int64_t bytes);

  std::mutex mutex_;  ///< taken before those of operators
  std::unordered_set<Operator*> operators_;
  // A kernel takes 20 to 60 KiB with everything that belongs to it.
  int64_t most_kernels_ = 2048, most_bytes_ = int64_t{128} << 20;
  int64_t dropped_ = 0;
  std::atomic<uint64_t> clock_{0};
};

/// The process's.
KernelLimit& kernel_limit();

/// Kernels have the Plans of this store from now on (see tc_store_use): those that have others are
/// forgotten.
void use_tunings(const tc_store* store);

}  // namespace tc_torch
