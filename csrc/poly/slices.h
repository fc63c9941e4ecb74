// Temporaries that the iterations of a chain's outer loops have to themselves, slice by slice.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "poly/fuse.h"

namespace tc::poly {

/// A slice for every iteration of some outer loops, which are the tensor's leading dimensions.
struct Slices {
  std::vector<int64_t> sizes, strides;  ///< of these dimensions, outermost first; in elements
};

/// The temporaries that only the clusters of one chain touch, each time in the slice of the
/// iteration that they are in. What leads to a place inside a slice does not matter.
std::map<std::string, Slices> find_slices(const std::vector<Cluster>& clusters, const Scop& scop,
                                          const Layouts& layouts);

}  // namespace tc::poly
