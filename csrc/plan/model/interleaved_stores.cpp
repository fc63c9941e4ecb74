#include "plan/model/interleaved_stores.h"

#include <cmath>

namespace tc::plan {

double cycles_of_interleaved(int64_t apart, int lanes) {
  // Of powers of two, pairs of vectors are interleaved step by step; of other rows, every vector of
  // memory is put together from all.
  const bool power = (apart & (apart - 1)) == 0;
  const double permutations =
      power ? std::log2(static_cast<double>(apart)) : static_cast<double>(apart - 1);
  return (1 + permutations) / lanes;
}

}  // namespace tc::plan
