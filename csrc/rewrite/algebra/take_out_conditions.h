// Conditions that are the same for all terms of a reduction choose its result.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// O(m, n) +=! keep(m) > 0 ? A(m, k) * B(n, k) : 0 becomes a plain sum, O.chosen(m, n) +=! A(m, k)
/// * B(n, k), and O(m, n) = keep(m) > 0 ? O.chosen(m, n) : 0. That is done of conditions on data
/// that have no index of the reduction, whose other side is the reduction's identity, and that keep
/// no read inside its tensor. Runs on a specialised program; adds the layouts of its temporaries.
void take_out_conditions(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
