#include "plan/model/near_lanes.h"

#include <algorithm>

namespace tc::plan {
namespace {

// Measured: 3 channels of 224 x 224 in steps of two, filters of 7 x 7, take 1.5 times as long so as
// with filters along the vector.
constexpr double kNearLoad = 6;
// Of these, what permutations take: counted of lanes two elements apart, for 512 bits in halves, of
// which two vectors are 4 loads, and their permutation stands for 2.
constexpr double kPermutations = 1.0 / 3;

}  // namespace

double loads_of_near_lanes(double apart, bool loaded) {
  // Backwards, one load is permuted.
  return kNearLoad * std::max(0.5, apart - 1) * (loaded ? kPermutations : 1);
}

}  // namespace tc::plan
