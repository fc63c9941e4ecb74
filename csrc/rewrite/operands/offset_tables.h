// Reads through tables along a reduction: one offset a step, however many tables and indices.
#pragma once

#include <vector>

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Where an input is read at places that tables over reduction indices say, as in
/// data(m, ta(a), tb(b)), a statement in front adds up what these tables and the reduction indices
/// contribute to the offset in memory, once a call, and the read becomes data(m, 0, offset(a, b)).
/// The statement's reductions are put in the order in which the other operands lie in memory, so
/// that `collapse_dimensions` can make them one loop, which it may do to the statement in front in
/// any case. Left alone are reads with a single table and no other reduction, those that only some
/// points make, and tables that are too long for what a result gains. Runs on a specialised
/// program, before collapse_dimensions; adds the layouts of its temporaries.
void make_offset_tables(Program& program, Layouts& layouts, const CpuMachine& machine);

/// The same for the tables over all indices of a statement without a reduction that is to come;
/// returns the statements in front of it.
std::vector<Statement> make_offset_tables(Program& program, Layouts& layouts,
                                          const CpuMachine& machine, Statement& statement);

}  // namespace tc::ir
