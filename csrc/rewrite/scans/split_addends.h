// Sums of sums, one for each of them, and reductions of choices, one for each side.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// The statement, or the parts it is taken apart into, and these again up to so many times, so that
/// something holds for all of them; nothing where no way is found. The parts of Y +=! c ? X * (W -
/// V) : 0 are Y +=! c ? X * W : 0 and Y += c ? -X * V : 0, and those of a value that chooses by
/// indices, as abs(t - s) does, the points of each side. The first part initializes what the
/// statement does.
std::optional<std::vector<Statement>> split_until(
    const Statement& statement, const std::function<bool(const Statement&)>& holds, int times = 3);

}  // namespace tc::ir
