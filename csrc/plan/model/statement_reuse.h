// What statements of a cluster find in a cache since those before them have accessed it.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "plan/model/statement_accesses.h"
#include "plan/model/statement_loops.h"

namespace tc::plan {

/// Temporaries that statements of the cluster write, and no other statements access.
std::set<std::string> own_temporaries(const ClusterContext& in);

/// In the order in which statements run. What one of them accesses, the next ones find where all
/// that an iteration of the loops around them touches fits into a cache.
class StatementReuse {
 public:
  /// `own`: its temporaries, see above. Refers to both.
  StatementReuse(const Cluster& cluster, const std::set<std::string>& own);

  /// Adds what the cluster's statement with that number accesses.
  void add(size_t statement, const StatementLoops& nest, const StatementAccesses& accesses);

  /// Of a statement that was added, whether each of its accesses is of what a statement before has
  /// accessed in the same iteration, or of a temporary that nothing else reads.
  const std::vector<bool>& found(size_t statement) const { return found_[statement]; }
  /// That an iteration of the loops around all statements touches.
  double bytes() const { return bytes_; }

 private:
  const Cluster& cluster_;
  const std::set<std::string>& own_;
  std::set<std::string> accessed_;  ///< texts, see shared_text
  std::vector<std::vector<bool>> found_;
  double bytes_ = 0;
};

}  // namespace tc::plan
