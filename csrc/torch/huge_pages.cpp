#include "torch/huge_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>

namespace tc_torch {

void prefer_huge_pages(void* memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kHugePage = 2 << 20;
  // Smaller memory is mostly handed out again by the allocator, pages and all.
  if (bytes < 2 * kHugePage) return;
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory), end = begin + bytes;
  begin = (begin + kHugePage - 1) / kHugePage * kHugePage;
  end = end / kHugePage * kHugePage;
  // Advice: a kernel without huge pages refuses, and nothing is lost.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory;
  (void)bytes;
#endif
}

}  // namespace tc_torch
