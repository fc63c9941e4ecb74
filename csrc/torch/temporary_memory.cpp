#include "torch/temporary_memory.h"

#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <exception>
#include <list>
#include <mutex>

namespace tc_torch {

namespace {

/// Bytes of the blocks that are kept: below the least one the C library keeps freed memory itself.
/// A choice of how much a process may hold that it does not use.
constexpr size_t kLeastKept = size_t{256} << 10, kMostKept = size_t{64} << 20;

struct Block {
  void* memory = nullptr;
  size_t bytes = 0;
};

/// Blocks that nobody uses. They are forgotten in a child of fork whose parent was about to change
/// them: who cannot have the lock at once goes on without the blocks.
class FreeBlocks {
 public:
  /// One that is large enough, and less than twice as large as it has to be.
  void* take(size_t bytes) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
      if (block->bytes >= bytes && block->bytes / 2 < bytes &&
          (best == blocks_.end() || block->bytes < best->bytes))
        best = block;
    if (best == blocks_.end()) return nullptr;
    void* memory = best->memory;
    held_ -= best->bytes;
    blocks_.erase(best);
    return memory;
  }

  /// Whether the block is kept, for which those that lie here longest are freed.
  bool keep(Block block) {
    if (block.bytes < kLeastKept || block.bytes > kMostKept) return false;
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    while (held_ + block.bytes > kMostKept) drop_oldest();
    blocks_.push_front(block);
    held_ += block.bytes;
    return true;
  }

  void clear() {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    while (lock && !blocks_.empty()) drop_oldest();
  }

 private:
  void drop_oldest() {
    held_ -= blocks_.back().bytes;
    c10::free_cpu(blocks_.back().memory);
    blocks_.pop_back();
  }

  std::mutex mutex_;
  std::list<Block> blocks_;  ///< those that were given back last in front
  size_t held_ = 0;
};

/// Never destroyed: kernels may run while the process ends.
FreeBlocks& free_blocks = *new FreeBlocks;

}  // namespace

void advise_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t kHugePage = 2 << 20;
  if (bytes < 2 * kHugePage) return;
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory), end = begin + bytes;
  begin = (begin + kHugePage - 1) / kHugePage * kHugePage;
  end = end / kHugePage * kHugePage;
  // Advice only: where the system knows no huge pages the kernel runs as well, more slowly.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

#if defined(__SANITIZE_ADDRESS__)
// Which of its blocks are in use is what the sanitizer has to see.
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

void* allocate_temporary(size_t bytes) {
  if (kKeeps && bytes >= kLeastKept)
    if (void* memory = free_blocks.take(bytes)) return memory;
  try {
    void* memory = c10::alloc_cpu(bytes);
    advise_huge_pages(memory, bytes);
    return memory;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void release_temporary(void* memory) {
  if (!memory || (kKeeps && free_blocks.keep({memory, malloc_usable_size(memory)}))) return;
  c10::free_cpu(memory);
}

void free_temporaries() { free_blocks.clear(); }

}  // namespace tc_torch
