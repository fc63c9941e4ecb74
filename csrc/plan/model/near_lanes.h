// Vectors whose lanes lie a few elements apart.
#pragma once

namespace tc::plan {

/// Loads that such a vector takes: of all elements in between, and permutations, which take the
/// place of multiply-adds. Where another read has `loaded` these elements, permutations alone.
double loads_of_near_lanes(double apart, bool loaded);

}  // namespace tc::plan
