// What sums cost once they have inner sums.
#pragma once

#include <vector>

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// Statements of a program as nest_sums leaves them, without changing it.
std::vector<Statement> nested(std::vector<Statement> statements, Program program, Layouts layouts,
                              const CpuMachine& machine);

/// The operations of statements, as nest_sums counts them: one for each factor at each point, and
/// those that elements of results cost.
double operations_of(const std::vector<Statement>& statements);

}  // namespace tc::ir
