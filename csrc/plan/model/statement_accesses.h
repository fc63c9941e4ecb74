// What a statement reads and writes under a Plan: where it lies, what of it is copied, how lanes of
// a vector find it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/forms/operands.h"
#include "plan/members.h"
#include "plan/model/statement_loops.h"

namespace tc::plan {

struct Access {
  ir::MemoryAccess access;
  Footprint footprint;                          ///< where it lies; steps by number of the iterator
  std::vector<std::optional<int64_t>> strides;  ///< in bytes, by number of the iterator
  const CopyPlan* copy = nullptr;
  bool makes_copy = false;  ///< rather than share that of a statement before
  Footprint used;           ///< what the innermost loops read: the copy, if there is one
  bool spread = false;      ///< the innermost loop goes too far for anybody to ask for lines ahead
  bool loaded = false;      ///< a read before it loads the elements between its lanes
};

/// Of the cluster's statement with that number, under loops of that Plan. Equal reads are one.
class StatementAccesses {
 public:
  /// `copies` are the texts of those that statements before have made, and get those of this one.
  StatementAccesses(const ClusterPlan& plan, size_t s, const ClusterContext& in,
                    const StatementLoops& nest, std::set<std::string>& copies);

  /// The write last.
  const std::vector<Access>& all() const { return accesses_; }
  /// Of every iterator, by its number.
  const std::vector<int64_t>& extents() const { return extents_; }
  /// Elements of a copy's box along a dimension of the tensor.
  double copied_elements(const Access& access, size_t d) const;
  /// Loads that a vector of a read takes, where units take one that lies in memory in so many
  /// parts.
  double loads_of_a_vector(const Access& access, double parts) const;
  /// Of the vectors that a register tile with such a block loads in its unrolled steps, the share
  /// that LLVM loads: equal ones once. Scalars are loaded again where registers do not suffice (see
  /// unroll_reductions).
  double share_of_windows(const Access& access, const std::vector<int64_t>& block) const;

 private:
  void add(const ir::MemoryAccess& access);
  std::string copy_text(size_t s, const Access& access) const;
  Footprint::Dimension dimension(const ir::Expr& subscript, double size, double stride) const;
  Footprint copied(const Access& access) const;
  bool is_spread(const Access& access) const;
  bool is_loaded(const Access& access) const;
  /// Whether data says its places along the vector, which lie side by side in tables.
  bool is_in_table(const Access& access) const;
  double run_bytes(const Access& access) const;
  std::optional<int64_t> stride_in_copy(const Access& access) const;

  const ClusterPlan& plan_;
  const ClusterContext in_;
  const ScopStatement& statement_;
  const std::vector<ir::Iterator>& domain_;
  const StatementLoops& nest_;
  std::vector<int64_t> extents_, at_copies_;  ///< by number of the iterator
  std::vector<Access> accesses_;
};

}  // namespace tc::plan
