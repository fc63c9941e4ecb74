// The points of a register tile: loops over its results, one a dimension, of which the first one is
// the vector.
#pragma once

#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// Whether the functions of points are too much code to be unrolled: those of a nest of point loops
/// whose first dimension is cut into vectors of so many lanes.
bool has_many_functions(const nest::Nest& points, int lanes);

/// Makes plain loops of point loops, whose extents must be constant, the vectors among them cut,
/// and unrolls them, but for those of many functions that access none of the `accumulators`. Where
/// the last vector is not full it begins early enough to end with the others: its lanes repeat
/// results that the vector before has, which is right as long as nothing that the tile stores to
/// memory is read from there (`repeatable`). Otherwise, and below one vector, lanes are left out of
/// memory accesses. `locals` are arrays that have a place of their own for every lane, the
/// accumulators among them.
nest::Nest cut_point_vectors(const nest::Nest& nest, int lanes, const std::set<std::string>& locals,
                             const std::set<std::string>& accumulators, bool repeatable);

}  // namespace tc::codegen
