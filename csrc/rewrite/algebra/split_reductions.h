// Long reductions with few results become parts that can run at the same time.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Splits a reduction whose left-hand side has too few elements to keep threads busy, and whose
/// right-hand side has many: a temporary gets the partial results of up to 64 parts of one
/// reduction index, and two statements combine them, and the iterations that do not divide, in a
/// fixed order. The number of parts follows from extents alone, so results do not depend on the
/// number of threads. Parts of neighbouring statements come first, so that they can share a loop
/// over the parts. Runs on a specialised program, before scop; adds the layouts of its temporaries.
void split_reductions(Program& program, Layouts& layouts, const CpuMachine& machine);

/// The same for a GPU, where some thousand threads are wanted and each launch that follows another
/// is cheap: as many parts as keep the threads busy, down to 32 terms each, the terms of a part as
/// far from each other as there are parts. Parts that are too long, because one index was too
/// short, and results of parts that are many are split again, so that a sum of a million becomes
/// four launches. The order of the additions follows from extents alone here too.
void split_reductions_for_gpu(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
