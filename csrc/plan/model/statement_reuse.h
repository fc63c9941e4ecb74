// What statements of a cluster find in a cache, or in registers, since those before them have
// accessed it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/model/statement_accesses.h"
#include "plan/model/statement_loops.h"

namespace tc::plan {

/// Temporaries that statements of the cluster write, and no other statements access.
std::set<std::string> own_temporaries(const ClusterContext& in);

/// Whether a statement behind this one, another than its updates, reads what it writes.
bool is_read_later(const ClusterContext& in, size_t statement);

/// Of all tensors that the cluster's statements access, but for its `own`, of which each iteration
/// of the loops that the statements share has a part.
double touched_bytes(const ClusterContext& in, const std::set<std::string>& own);

/// In the order in which statements run. What one of them accesses, the next ones find where all
/// that an iteration of the loops around them touches fits into a cache.
class StatementReuse {
 public:
  /// `own`: its temporaries, see above. Refers to both.
  StatementReuse(const Cluster& cluster, const std::set<std::string>& own);

  /// Adds what the cluster's statement with that number accesses. `in_registers`: it is part of a
  /// register tile that ends with all its terms, which holds the results of its sums and what it
  /// makes for itself.
  void add(size_t statement, const StatementLoops& nest, const StatementAccesses& accesses,
           bool in_registers);

  /// Of a statement that was added, whether each of its accesses is of what a statement before has
  /// accessed in the same iteration, or of a temporary that nothing else reads.
  const std::vector<bool>& found(size_t statement) const { return found_[statement]; }
  /// Of a statement that was added, whether each of its accesses stays in registers: a read of what
  /// a statement before it has in the register tile, or a write that a later one of the tile
  /// replaces or nothing outside of it reads.
  const std::vector<bool>& held(size_t statement) const { return held_[statement]; }
  /// That an iteration of the loops around all statements touches.
  double bytes() const { return bytes_; }

 private:
  const Cluster& cluster_;
  const std::set<std::string>& own_;
  std::set<std::string> accessed_;  ///< texts, see shared_text
  std::vector<std::vector<bool>> found_, held_;
  /// Of the results that the register tile holds, the statement that has written them last and the
  /// number of its access.
  std::map<std::string, std::pair<size_t, size_t>> in_tile_;
  double bytes_ = 0;
};

}  // namespace tc::plan
