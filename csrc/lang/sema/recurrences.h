// Recurrences that no size can compile, found where the text is.
#pragma once

#include "lang/lowering/definition.h"

namespace tc::lang {

/// LanguageError where a statement reads, at other values of its indices, what it writes, whatever
/// the sizes are. Sizes that leave one value, or none, to an index along which it does so do not
/// count. What can be compiled for some sizes is left to the call, and so is what depends on
/// scalars, on products of sizes and on places that expressions say. `poly/scop` refuses in the
/// same words.
void refuse_recurrences(const Definition& definition);

}  // namespace tc::lang
