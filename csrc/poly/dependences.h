// Memory dependences between statement instances, in the order of the text.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "poly/scop.h"

namespace tc::poly {

/// Flow, anti and output, by the ids of the statement that comes first and of the one that depends
/// on it; none is empty.
using Dependences = std::map<std::pair<std::string, std::string>, isl::map>;

/// Whether a dependence is inside single iterations of the loops over these dimensions of its two
/// statements.
bool is_of_same_iteration(const isl::map& dependence, const std::vector<int>& first,
                          const std::vector<int>& second);

/// Exact for affine accesses; indirect ones depend on everything that their dimension may hold.
Dependences find_dependences(const Scop& scop);

}  // namespace tc::poly
