// Reads that lie inside their tensors at all points of a domain.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// Whether a read needs no guard: intervals know products of indices, sets what belongs together.
/// Nothing is known of subscripts that are data. Of a specialised program.
bool lies_inside(const Call* read, const Program& program, const std::vector<Iterator>& domain);

}  // namespace tc::ir
