// Every index counts from 0.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Moves every iterator to a lower bound of 0 and its uses along: tiles, which start at multiples
/// of their sizes, then start with the domain, and statements with equal extents have equal
/// domains. Runs on a specialised program after its accesses were checked, since messages speak of
/// indices as the user wrote them.
Program start_at_zero(const Program& program);

}  // namespace tc::ir
