// What indices can be, as intervals of integers.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// The values of every index of a domain whose ranges are constant. Of an empty range, of which
/// nothing is looked at, the first.
Halide::Internal::Scope<Halide::Internal::ConstantInterval> index_intervals(
    const std::vector<Iterator>& domain);

}  // namespace tc::ir
