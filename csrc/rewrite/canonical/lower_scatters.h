// Scatters as later stages take them: updates alone, of types that can be updated.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Splits every scatter in what it starts from, over its plain indices and the whole of its
/// scattered dimensions, and its updates. A narrow result is computed in a temporary of the size of
/// the whole result and rounded at the end: sums and products of narrow floats in float; on a
/// target where points run at the same time (`atomic`), what has fewer than 32 bits in 32.
///
/// Terms that meet in one place whatever the data, since an index stands in no subscript, are
/// reduced first, into a temporary over all other indices.
///
/// Runs on a specialised program before all passes that change statements. LanguageError where a
/// statement that starts afresh reads what it overwrites.
void lower_scatters(Program& program, bool atomic);

}  // namespace tc::ir
