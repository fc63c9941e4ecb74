// Statements that may share their loops become neighbours.
#pragma once

#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Moves a reduction up behind another one that runs over as many points and reads one of its
/// tensors at the same places, where nothing in between depends on it or it on that: statements
/// that are neighbours may share their loops, and then the tensor is read once. A single number
/// that waits for no loop, as the gradient of a mean, comes first: no loop is shared across it
/// (measured: 512 x 1000 of a Huber loss backward in 148 us instead of 377). Runs on a specialised
/// program.
void bring_together(Program& program, const CpuMachine& machine);

}  // namespace tc::ir
