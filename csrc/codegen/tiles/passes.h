// Register tiles: blocks of results that reductions keep in registers, and values that need no
// memory at all.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// Gives every register tile a version for each of its sizes, so that all its loops have constant
/// extents and are unrolled, and keeps every tensor that it accumulates into in a local array of
/// vectors, which LLVM turns into registers: loaded before its first use unless the tile
/// initialises it, stored once behind its last. Tensors that some statement of the tile addresses
/// differently stay in memory. Runs before cut_vector_loops; tiles whose vector loop was not
/// vectorised are left as they are. Lines of `large` buffers that a tile does not read, and fills
/// in part, are prefetched before it begins. Of `temporaries` that one tile makes and nothing else
/// touches, nothing is stored.
nest::Nest expand_register_tiles(const nest::Nest& nest, int vector_bits,
                                 const std::set<std::string>& large,
                                 const std::set<std::string>& temporaries);

/// One loop over all iterations of two, in the role of the inner one, where every index in memory
/// moves on by as much from the last inner iteration to the next outer one as between inner ones,
/// extents are constant, and the iterators stand in nothing but indices. Null elsewhere.
nest::Nest merge_loops(const nest::Loop& outer, const nest::Loop& inner);

/// Makes one loop of directly nested serial loops in the body of a register tile: after copies into
/// the order of use, operands often lie like this though their tensors do not, and a long loop has
/// fewer ends than short ones.
nest::Nest merge_reductions(const nest::Nest& body);

/// Unrolls the reduction loops of few iterations in the body of a register tile whose point loops
/// have constant extents, innermost first. Where the accumulators leave no registers for elements
/// that several iterations read, as the windows of a convolution do, every iteration loads its own.
/// Runs before the tile's results move to registers and its vectors are cut.
nest::Nest unroll_short_reductions(const nest::Nest& body, int lanes, int registers);

/// Makes plain loops of point loops, whose extents must be constant, the vectors among them cut,
/// and unrolls them, but for those of many functions that access none of the `accumulators`. Where
/// the last vector is not full it begins early enough to end with the others: its lanes repeat
/// results that the vector before has, which is right as long as nothing that the tile stores to
/// memory is read from there (`repeatable`). Otherwise, and below one vector, lanes are left out of
/// memory accesses. `locals` are arrays that have a place of their own for every lane, the
/// accumulators among them.
nest::Nest cut_point_vectors(const nest::Nest& nest, int lanes, const std::set<std::string>& locals,
                             const std::set<std::string>& accumulators, bool repeatable);

/// Where every load of a temporary, or of a buffer that the statement allocates, follows a store to
/// the same element in the same iteration, the value gets a name, loads become that name, and
/// nothing is stored: a chain of elementwise statements in one loop passes its values on in
/// registers. Of other temporaries all accesses stay. Runs after vectorize_loops and unroll_loops,
/// when a vector is an expression.
ir::Stmt forward_values(const ir::Stmt& stmt, const std::set<std::string>& temporaries);

// ---- sums of products in registers as multiply-adds of whole vectors

/// Says of every local[i] += a * b of floats inside a serial loop, for the given local arrays of
/// `elements`, that it contracts, and hides the values of those that are `read` behind the
/// outermost of these loops. Such a sum may be computed with one rounding, in another order, and by
/// LLVM under the assumption that its terms are numbers; hidden values come out of it with nothing
/// known about them, so that a NaN stays one for everything that follows. What is only stored needs
/// none of this (measured: 128 x 32 x 256, an exclusive or for every vector of results of 32
/// terms, 1.13 of ATen's speed with it and 1.15 to 1.19 without). No terms of one sum have a factor
/// in common that LLVM could see: elements that several unrolled iterations load are loaded by each
/// of them. Halide 21 has no vector form of a strict multiply-add.
nest::Nest mark_accumulations(const nest::Nest& nest, const std::set<std::string>& locals,
                              const std::set<std::string>& read, int64_t elements);

/// sum + product, which contracts, as an expression that no pass sees through before
/// lower_accumulations.
ir::Expr make_accumulation(const ir::Expr& sum, const ir::Expr& product);

bool has_accumulations(const ir::Stmt& stmt);

/// Turns these sums into plain arithmetic. The last pass, since Halide's rules do not see through
/// the marks but would take plain floats for numbers too. What has no strict form would be taken
/// for a number as well: results of conversions between float types are hidden, but for factors of
/// a sum, and absolute values clear a bit. define_hidden_zero must run afterwards.
ir::Stmt lower_accumulations(const ir::Stmt& stmt);

}  // namespace tc::codegen
