// Scatters whose plain indices leave threads idle become parts that can run at the same time.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Splits a scatter that has too few plain indices for all threads, in one of two ways, where a
/// count of cycles finds it clearly faster:
///  - owners: a part for every thread adds up the points whose place in the first scattered
///    dimension lies in its range of it, which is the statement's guard: where indices say the
///    place, it is in the domain, and nobody looks at another's points; every place gets its terms
///    in the order of the text.
///  - copies: parts of the points add up in copies of the result, which are then summed in a fixed
///    order. Their number follows from extents alone, so results do not depend on the number of
///    threads.
/// Runs on a specialised program after lower_scatters, before scop; adds the layouts of its
/// temporaries.
void share_scatters(Program& program, Layouts& layouts, const CpuMachine& machine);

/// Gives every scatter as many owners as keep a GPU busy, without atomic updates.
void give_owners(Program& program);

}  // namespace tc::ir
