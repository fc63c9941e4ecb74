// The points of a register tile: loops over its results, one a dimension, of which the first one is
// the vector.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// What a point loop over this dimension is called, or begins with.
std::string point_loop(size_t dimension);
/// The dimension of a point loop by its name; nothing for other loops.
std::optional<size_t> point_dimension(const std::string& name);
bool is_point_loop(const std::string& name);

/// Unrolls the vectors of point loops that are vectorised, whose extents must be constant. Where
/// the last vector is not full it begins early enough to end with the others: its lanes repeat
/// results that the vector before has, which is right as long as nothing that the tile stores to
/// memory is read from there (`repeatable`). Otherwise, and below one vector, lanes are left out of
/// memory accesses. `locals` are arrays that have a place of their own for every lane.
ir::Stmt cut_point_vectors(const ir::Stmt& stmt, int lanes, const std::set<std::string>& locals,
                           bool repeatable);

}  // namespace tc::codegen
