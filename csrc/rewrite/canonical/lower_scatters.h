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

/// An assignment to every element that a scatter may write; its value is left open. Indices of
/// scattered dimensions are called `place`, with the dimension behind it where there are several,
/// or where they are to be `numbered`.
Statement cover_scatter(const Statement& scatter, const Program& program, bool numbered = false);

}  // namespace tc::ir
