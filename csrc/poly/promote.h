// Promotion: the part of a tensor that a tile reads, copied to a buffer in the order of use
// (Vasilache et al., Tensor Comprehensions, section 5.3; PPCG).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/notes.h"
#include "base/result.h"
#include "ir/accesses.h"
#include "poly/copy_layout.h"
#include "poly/scop.h"

namespace tc::poly {

/// A read of a statement, over its iterators.
struct StatementRead {
  const ScopStatement* statement = nullptr;
  ir::MemoryAccess access;
};

/// A copy of the footprint box of reads, below a schedule node.
struct Promotion {
  std::string id;  ///< the copying statement's tuple: [box offsets, element] of the tensor
  /// The reads that it serves, all of one tensor and of the same elements. Reads of a statement
  /// that are equal are one of them.
  std::vector<StatementRead> reads;
  isl::union_map touched;      ///< by each of them: { [loops above] -> tensor[element] }
  std::string buffer;          ///< where to
  std::vector<int64_t> sizes;  ///< of the box, one a dimension of the tensor
  CopyLayout layout;
  std::vector<int64_t> strides;  ///< of the buffer, one a dimension of the layout
  int64_t elements = 0;          ///< of the buffer
  double times = 0;  ///< that the copy is made, by iterations of the loops around; 0: not counted
  /// The statement whose value it holds, which does not run by itself (see computed_copies).
  const ScopStatement* computed = nullptr;

  const std::string& tensor() const { return reads.front().access.tensor; }
};

/// A mapped schedule and the copies that its extension nodes make.
struct Mapped {
  isl::schedule schedule;
  std::vector<Promotion> promotions;
  Notes notes;        ///< what was decided and why
  size_t joined = 0;  ///< outer loops that it runs inside of together with the cluster before
};

/// Copies what a read touches below `node`, once for every iteration of the loops above it, in this
/// layout, which holds every dimension of the tensor. `node` becomes the tree with the copy in
/// front of it, in the same place. All subscripts must be affine, every instance must make the
/// read, and the tensor must not be written below the node. The reason says why there is no box, or
/// that it has more than `most_elements`.
Result<Promotion> promote(isl::schedule_node& node, const Scop& scop, const StatementRead& read,
                          const CopyLayout& layout, int64_t most_elements, const std::string& id);

/// Lets the copy in front of `node` serve this read too, if that is of the same tensor and touches
/// the same elements; returns whether it does.
bool share(Promotion& promotion, const isl::schedule_node& node, const Scop& scop,
           const StatementRead& read);

}  // namespace tc::poly
