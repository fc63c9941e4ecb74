// Prefetches for rows whose elements are picked in an order that data says.
#pragma once

#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// Where a vector loop picks elements out of a row of one of the buffers, X[y * n + t[x]], and the
/// loop around it goes from row to row, every iteration prefetches a piece of the next row, so that
/// the row is there when it begins: the processor follows steps, which an order from a table has
/// not, and the vectors of one or two lines each leave it little to wait for at the same time. Rows
/// of which the loop picks but a few elements are left alone. Runs after cut_vector_loops.
nest::Nest prefetch_rows(const nest::Nest& nest, const std::set<std::string>& buffers);

}  // namespace tc::codegen
