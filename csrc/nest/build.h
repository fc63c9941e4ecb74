// From a mapped schedule to the loop nest: the narrow waist.
#pragma once

#include "ir/layout.h"
#include "nest/nest.h"
#include "poly/promote.h"

namespace tc::nest {

/// The nest of a schedule. Tensors become flat buffers of their own name, indexed by strides in 32
/// bits where every offset fits and 64 bits otherwise; run-time scalars are loads at index 0 of a
/// buffer of their name. Marked bands become loops with their role, register tiles and copies.
/// Promoted tensors are read from their copies, whose buffers exist around the loops that use them;
/// temporaries are the caller's. Loop names are unique.
Nest build(const poly::Scop& scop, const poly::Mapped& mapped, const Layouts& layouts);

}  // namespace tc::nest
