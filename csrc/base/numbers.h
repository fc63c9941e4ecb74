// Divisions that round up.
#pragma once

#include <cstdint>

namespace tc {

/// How often `each` fits into `all`, the last time perhaps in part; neither is negative.
constexpr int64_t divide_up(int64_t all, int64_t each) { return (all + each - 1) / each; }

/// The next multiple.
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return divide_up(value, multiple) * multiple;
}

}  // namespace tc
