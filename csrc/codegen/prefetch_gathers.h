// Prefetches for reads whose addresses are data.
#pragma once

#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// In innermost loops, asks for what later iterations read of the given buffers where the address
/// depends on data that the loop reads (rows of a lookup table): the processor cannot guess such
/// addresses, and only starts as many reads by itself as fit between two that it waits for. No data
/// is read beyond what the loop reads. Runs after vectors are made and loops unrolled.
ir::Stmt prefetch_gathers(const ir::Stmt& stmt, const std::set<std::string>& buffers);

}  // namespace tc::codegen
