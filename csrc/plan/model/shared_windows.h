// What the unrolled steps of a register tile load in common.
#pragma once

#include <cstdint>
#include <vector>

namespace tc::plan {

/// So many places along an iterator, each so far from the one before.
struct Walk {
  int64_t step = 0, count = 1;
};

/// Of the places that walks along several iterators lead to together, the share that differ: rows h
/// that read h + kh in unrolled steps of kh find what their neighbours have loaded. 3 rows and 3
/// steps touch 5 places, not 9.
double different_share(const std::vector<Walk>& walks);

}  // namespace tc::plan
