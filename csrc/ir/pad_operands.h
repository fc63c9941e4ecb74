// Operands of reductions under conditions of indices: written out first where they are used often.
#pragma once

#include <map>
#include <string>

#include "compile.h"
#include "ir/program.h"
#include "poly/cpu_machine.h"

namespace tc::ir {

/// A reduction with the factor (1 <= h + kh && h + kh <= H ? I(c, h + kh - 1) : 0), for many m,
/// gets a statement in front, I.padded(c, y) = (1 <= y && y <= H ? I(c, y - 1) : 0), and reads
/// I.padded(c, h + kh) instead: conditions are decided once for every element, and the operand can
/// be copied and loaded like any other. That is done where the choice is one of what the subscripts
/// of its reads take, each of its own indices, without gaps, and where every element is used often
/// enough to pay for a statement. Conditions by data are left alone. Runs on a specialised program,
/// before collapse_dimensions; adds the layouts of its temporaries.
void pad_operands(Program& program, std::map<std::string, Layout>& layouts,
                  const poly::CpuMachine& machine);

}  // namespace tc::ir
