// Copies from one buffer to another: vectors, transposed in registers where the two disagree about
// which direction is contiguous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// One loop of a copy.
struct CopyLoop {
  std::string name;
  ir::Expr min, extent;
  int64_t from = 0, to = 0;  ///< steps of the two indices
};

/// A copy of one buffer's elements to another, or of what is computed of elements of several.
struct Copy {
  std::vector<CopyLoop> loops;  ///< outermost first
  const Halide::Internal::Store* store = nullptr;
  const Halide::Internal::Load* load = nullptr;  ///< null where elements are computed
  ir::Expr from, to;                             ///< indices where all loops begin
};

/// Marks a statement as a copy: loops, whose order does not matter, around `to[affine] = value`,
/// which is `from[affine]` or computed, of buffers that are not written meanwhile.
ir::Stmt make_copy(const ir::Stmt& nest);

/// What a statement that was marked copies, if it computes nothing and both places step along every
/// loop.
std::optional<Copy> find_copy(const Halide::Internal::ProducerConsumer* marked);

/// Reorders and merges the loops of copies and gives them vectors: along the direction that both
/// sides have contiguous, or else in square blocks that are transposed by shuffles, the last of
/// which overlaps the one before it. Blocks that continue on another page are prefetched; those
/// that are computed pass through an array on the stack. Loops that remain marked Vectorized are
/// for cut_vector_loops. Copies of other forms stay as they are.
ir::Stmt vectorize_copies(const ir::Stmt& stmt, int vector_bits);

}  // namespace tc::codegen
