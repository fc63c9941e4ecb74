// Temporaries that are only a name for a value disappear into their uses.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Replaces a temporary by its value where that costs nothing: it is written by one statement
/// without reduction, nothing that its value reads is written until its last use, and either it is
/// read once in the whole program, by a statement that visits each of its elements at most once (of
/// a short index that a choice around the read fixes, once for all its values), or the value is no
/// more than an element of a tensor with the same dimensions in the same order, as of an image that
/// is padded by nothing. Runs on a specialised program, before scop; the program means the same
/// afterwards.
void inline_temporaries(Program& program);

}  // namespace tc::ir
