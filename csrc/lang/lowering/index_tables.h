// Subscripts that are looked up in tables of numbers computed from indices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ir/program.h"

namespace tc::lang {

/// In `left(x) = (2 * x - 1) / 4`, `O(n, x) = I(n, left(x))` the tensor `left` holds nothing but
/// what its index says. Subscripts, and conditions, that read such a table get what it holds in its
/// place, so that sizes alone say whether they stay inside, and later passes see which elements are
/// neighbours. `sized` is the program for these sizes, with its open accesses; returned is the
/// other one, with its own, where fewer of them are left. Nothing where it decides none.
std::optional<ir::Program> with_index_tables_in_place(const ir::Program& program,
                                                      const std::map<std::string, int64_t>& sizes,
                                                      const ir::Program& sized);

}  // namespace tc::lang
