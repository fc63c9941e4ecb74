// Temporaries that are only a name for a value disappear into their single use.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Replaces a temporary by its value where that costs nothing: it is written by one statement
/// without reduction, read once in the whole program, by a statement that visits each of its
/// elements at most once, and nothing that its value reads is written in between. Runs on a
/// specialised program, before scop; the program means the same afterwards.
Program inline_temporaries(const Program& program);

}  // namespace tc::ir
