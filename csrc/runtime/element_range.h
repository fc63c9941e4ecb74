// Whether all elements of a tensor of integers lie between two numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "tc/tc.h"

namespace tc::runtime {

/// A part of a tensor in memory, and the values that may be in it: from `least` to `most`, none
/// where `least` is larger.
struct ElementRange {
  int bits = 32;
  bool is_unsigned = false;
  int64_t offset = 0;  ///< of the first element, in elements
  std::vector<int64_t> sizes, strides;
  int64_t least = 0, most = 0;
};

/// Leaves out dimensions of one element, makes one of those that lie side by side, and puts the
/// smallest stride last. To be called once, before is_within.
void join_dimensions(ElementRange& range);

/// Looks at every element once, with vector instructions where they lie side by side, and with the
/// host's threads where there are many. `data` is the tensor's first element.
bool is_within(const ElementRange& range, const void* data, const tc_host& host);

}  // namespace tc::runtime
