// Reads that lie inside their tensors at all points of a domain.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tc::rewrite {

/// Whether a read needs no guard: intervals know products of indices, sets what belongs together.
/// Nothing is known of subscripts that are data. Of a specialised program; `conditions` hold at the
/// points that count.
bool lies_inside(const Halide::Internal::Call* read, const ir::Program& program,
                 const std::vector<ir::Iterator>& domain,
                 const std::vector<ir::Expr>& conditions = {});

/// Whether a read in an expression may be where its tensor has no element.
bool reads_outside(const ir::Expr& e, const ir::Program& program,
                   const std::vector<ir::Iterator>& domain,
                   const std::vector<ir::Expr>& conditions = {});

}  // namespace tc::rewrite
