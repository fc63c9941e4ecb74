// Positions of extreme values by ordinary reductions.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Replaces every ArgMin and ArgMax. A value of up to 32 bits and its position become one 64-bit
/// number, the value above the position, so that the largest number is that of the first largest
/// value; a second statement takes the position out again. Wider values are reduced first and then
/// looked for. The program must be specialised; all other passes come after this one.
void expand_positions(Program& program);

}  // namespace tc::ir
