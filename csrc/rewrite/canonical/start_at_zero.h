// Every index from 0.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Shifts the iterators that start elsewhere. Tiles are then cut from the first point on: a range
/// from -2 that is as long as one tile lies in one tile. The program must be specialised.
void start_at_zero(Program& program);

}  // namespace tc::ir
