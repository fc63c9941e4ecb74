#include "torch/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace tc_torch {

void advise_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t kHugePage = 2 << 20;
  if (bytes < 2 * kHugePage) return;
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory), end = begin + bytes;
  begin = (begin + kHugePage - 1) / kHugePage * kHugePage;
  end = end / kHugePage * kHugePage;
  // Advice only: where the system knows no huge pages the kernel runs as well, more slowly.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace tc_torch
