// Whether strided views share memory.
#pragma once

#include "ir/layout.h"

namespace tc::runtime {

struct MemoryRegion {
  const void* data = nullptr;  ///< the first element
  Layout layout;
  int64_t bytes = 1;  ///< of an element
};

/// Whether some byte belongs to both. Exact: views that interleave without touching do not overlap.
bool overlap(const MemoryRegion& a, const MemoryRegion& b);

/// Whether two different indices lead to one place. Exact.
bool overlaps_itself(const Layout& layout);

}  // namespace tc::runtime
