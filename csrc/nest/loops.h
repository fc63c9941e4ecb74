// Small rewrites of loops.
#pragma once

#include "nest/nest.h"

namespace tc::nest {

/// Directly nested loops of this role become one loop over all their iterations, as far as the
/// inner bounds do not depend on the outer iterator and extents are constant: the outer one varies
/// slowest.
Nest collapse_loops(const Nest& nest, Role role);

/// Puts conditions that read memory in front of the loops whose iterations they are the same for.
Nest hoist_conditions(const Nest& nest);

/// One nest of the `count` outermost loops of both, which must have the same ranges and roles, with
/// both bodies in it.
Nest join_loops(const Nest& first, const Nest& second, size_t count);

}  // namespace tc::nest
