// Ways around what Halide 21 and LLVM 21 get wrong, or take long for.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// Has the arrays on the stack of more than 16 KiB on the heap. Halide would take them from
/// halide_malloc all the same, but once a function and until its end: the kernel's scratch memory,
/// which is handed out and taken back in the order of the nest, neither counts them nor keeps
/// others off them.
nest::Nest move_large_arrays(const nest::Nest& nest);

/// Halide's simplifier calls a load pure when it bears a parameter, which to Halide is an input,
/// and then makes one of two that a store lies between. Takes the parameters from loads of buffers
/// that the statement stores to.
ir::Stmt forget_parameters(const ir::Stmt& stmt);

/// Gives these loads the parameters of the stores back: they say how buffers are aligned. To be
/// called after all simplification.
ir::Stmt recall_parameters(const ir::Stmt& stmt);

/// Puts calls in the place of truncations (see lang/lowering/lowering) that are computed of others.
/// The complements that these are made of are walked through four times by Halide's simplifier, and
/// so is every truncation inside another one, four times as often. To be called before
/// simplification.
ir::Stmt hide_nested_truncations(const ir::Stmt& stmt);

/// The inverse. To be called after the last simplification.
ir::Stmt show_nested_truncations(const ir::Stmt& stmt);

/// Where the value of a name begins with names of its own, let x = (let y = a in b), these come in
/// front of it. To be called before Halide's find_intrinsics, which takes loads out of the value of
/// x and leaves y, by which they may be predicated, behind.
ir::Stmt lift_lets(const ir::Stmt& stmt);

/// Names inside each other's values, more than a few levels deep, come one after the other in front
/// of the whole expression, or of the branch of a lazy choice. Halide's rewrite_interleavings and
/// simplify walk through the value of a name several times, and so through what is inside it that
/// many times more often for every level. Every name is to have a value of its own.
ir::Stmt flatten_deep_lets(const ir::Stmt& stmt);

/// Hides one side of every comparison by < or <= whose sides LLVM could find to be halves made
/// float or double. It would compare the halves, and where the processor does so by itself
/// (AVX512-FP16) and under a mask, LLVM 21 takes a < b and b < a for the same (llvm/llvm-project
/// issue 159723, mended in LLVM 22). Comparisons of floats are to be strict already.
/// define_hidden_zero must run afterwards.
ir::Stmt compare_halves_as_floats(const ir::Stmt& stmt);

/// What a sum of such terms over the lanes of a vector may begin with: `zero`, hidden where terms
/// have factors of 8 bits. Where all of a sum are the lanes of one product of bytes, unsigned ones
/// with signed ones, LLVM 21 makes a vpdpbusd of it (combineVPDPBUSDPattern), and of 8 or 16 lanes
/// then adds up fewer than there are. A product that is added to something is none to that rule.
/// define_hidden_zero must run afterwards.
ir::Expr begin_byte_sum(const ir::Expr& zero, const ir::Expr& term);

/// Begins innermost loops of many scalar accesses, such as those of gathers, with a prefetch of
/// what is in a cache. LLVM's LoopLoadElimination analyses the dependences between any two accesses
/// of a loop, and gives up where it meets a call that reads memory: with 768 loads it took 6 s of
/// 7, with 1,536 a minute (LLVM 21.1; 20.1 and 22.1 take less than a second). `__user_context` must
/// be in scope, and unrolling be done.
ir::Stmt stop_access_analysis(const ir::Stmt& stmt);

/// Puts long sequences of statements without a loop into branches that are always taken, one after
/// the other: several of LLVM's passes take time with the square of the instructions between two
/// branches. Memory and names keep their scopes. `__user_context` must be in scope. To be called
/// last.
ir::Stmt split_blocks(const ir::Stmt& stmt);

// ---- a zero that LLVM cannot see, to end what it may conclude from one value about another

/// An Int(32) variable that is 0 in every run.
ir::Expr hidden_zero();

/// The same value, about which LLVM knows nothing.
ir::Expr hidden(const ir::Expr& value);

/// The load at its address with a zero for each iteration, so that LLVM does not see that several
/// of them load the same element.
ir::Expr separate(const Halide::Internal::Load& load, const ir::Expr& iteration);

/// The value without such zeros.
ir::Expr reveal(const ir::Expr& value);

/// Defines the variable around a function's body where it is used. `__user_context` must be in
/// scope there.
ir::Stmt define_hidden_zero(const ir::Stmt& stmt);

}  // namespace tc::codegen
