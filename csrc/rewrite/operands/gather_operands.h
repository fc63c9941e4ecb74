// Operands of products that lie where tables say: put in order first where they are used often.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// A reduction that reads X(m, t(k)) for many n gets a statement in front, X.gathered(m, k) =
/// X(m, t(k)), and reads that instead: what lies in no order is walked through once, not once for
/// every block of results, and can be copied and loaded like any other operand. That is done where
///  - a table's result index stands in the contiguous dimension, so that neighbouring results would
///    each wait for a place of their own, or
///  - a table's reduction index does, and what the reduction walks through for a block of results
///    exceeds the cache for copies, or the first one.
/// Left alone are reads that only some points make, those that a window slides along (x + t(c)),
/// whose rows lie in order, and what would become larger than the tensor. Runs on a specialised
/// program, after make_offset_tables and before collapse_dimensions; adds the layouts of its
/// temporaries.
void gather_operands(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
