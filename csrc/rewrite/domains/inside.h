// Reads that lie inside their tensors at all points of a domain.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tc::rewrite {

/// Whether a read needs no guard: intervals know products of indices, sets what belongs together.
/// Nothing is known of subscripts that are data. Of a specialised program.
bool lies_inside(const Halide::Internal::Call* read, const ir::Program& program,
                 const std::vector<ir::Iterator>& domain);

/// Whether a read in an expression may be where its tensor has no element.
bool reads_outside(const ir::Expr& e, const ir::Program& program,
                   const std::vector<ir::Iterator>& domain);

}  // namespace tc::rewrite
