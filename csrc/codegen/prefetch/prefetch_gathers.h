// Prefetches for reads whose addresses are data.
#pragma once

#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// In innermost loops, prefetches what later iterations read of the given buffers where the address
/// depends on data that the loop reads (rows of a lookup table): the processor cannot guess such
/// addresses, and only starts as many reads by itself as fit between two that it waits for. The
/// last iterations prefetch what comes behind the loop: the next such loop of the same statements,
/// or the first one in the next iteration of the serial loop around them. Only data that the kernel
/// reads anyway says where. Runs after vectors are made and loops unrolled.
/// `lines_of_a_request` is a fact of the machine.
ir::Stmt prefetch_gathers(const ir::Stmt& stmt, const std::set<std::string>& buffers,
                          int lines_of_a_request);

/// Branch hints for these prefetches: most are for the loop itself, few for what follows it. To be
/// called after the last simplification, which the hints would stop.
ir::Stmt hint_prefetches(const ir::Stmt& stmt);

}  // namespace tc::codegen
