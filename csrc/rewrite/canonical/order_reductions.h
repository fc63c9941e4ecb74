// The order of a statement's reductions, which is the text's only as long as memory agrees.
#pragma once

#include <string>

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// Puts the reductions in the order in which the operand that moves along most of them lies in
/// memory, of several the largest; the slowest first. `except` is no such operand.
void order_reductions(const Program& program, const Layouts& layouts, Statement& statement,
                      const std::string& except = {});

/// The same for every statement where no operand lies in the order in which the text has the
/// reductions, as where a condition on the innermost ones comes first. Runs on a specialised
/// program without reductions to positions.
void order_reductions(Program& program, const Layouts& layouts);

}  // namespace tc::ir
