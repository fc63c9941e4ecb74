// Short rows of results that lie across the vector.
#pragma once

#include <cstdint>

namespace tc::plan {

/// Whether a row of so many results, which follow each other in memory, is short enough for a
/// register tile along another loop to hold it whole, and interleave its vectors as it stores them:
/// neighbours along the vector lie `apart` elements from each other, which is what the row has.
bool is_interleaved(int64_t apart, int64_t row);

/// Cycles of one such result: a vector is stored, and put together by permutations.
double cycles_of_interleaved(int64_t apart, int lanes);

}  // namespace tc::plan
