// Where the elements of strided views lie, and whether some share memory.
#pragma once

#include <cstdint>
#include <utility>

#include "ir/layout.h"

namespace tc::runtime {

/// The first and the last place of an element, in elements from that with index 0.
std::pair<int64_t, int64_t> reach(const Layout& layout);

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
