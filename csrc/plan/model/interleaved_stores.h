// Short rows of results that lie across the vector.
#pragma once

#include <cstdint>

namespace tc::plan {

/// Cycles of one result of a row that machine::is_interleaved: a vector is stored, and put together
/// by permutations.
double cycles_of_interleaved(int64_t apart, int lanes);

}  // namespace tc::plan
