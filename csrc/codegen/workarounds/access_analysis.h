// Loops with many accesses, which LLVM 21 analyses for minutes.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Begins innermost loops of many scalar accesses, such as those of gathers, with a prefetch of
/// what is in a cache. LLVM's LoopLoadElimination analyses the dependences between any two accesses
/// of a loop, and gives up where it meets a call that reads memory: with 768 loads it took 6 s of
/// 7, with 1,536 a minute (LLVM 21.1; 20.1 and 22.1 take less than a second). `__user_context` must
/// be in scope, and unrolling be done.
ir::Stmt stop_access_analysis(const ir::Stmt& stmt);

}  // namespace tc::codegen
