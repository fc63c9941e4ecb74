// Sums of products of bytes, which LLVM 21 gets wrong.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// What a sum of such terms over the lanes of a vector may begin with: `zero`, hidden where terms
/// have factors of 8 bits. Where all of a sum are the lanes of one product of bytes, unsigned ones
/// with signed ones, LLVM 21 makes a vpdpbusd of it (combineVPDPBUSDPattern), and of 8 or 16 lanes
/// then adds up fewer than there are. A product that is added to something is none to that rule.
/// define_hidden_zero must run afterwards.
ir::Expr begin_byte_sum(const ir::Expr& zero, const ir::Expr& term);

}  // namespace tc::codegen
