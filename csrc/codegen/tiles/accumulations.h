// Sums of products in registers as multiply-adds of whole vectors.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

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
