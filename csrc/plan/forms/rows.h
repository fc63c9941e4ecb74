// Clusters as rows: every statement is vectorised along a loop of its own below the shared band.
#pragma once

#include <optional>
#include <vector>

#include "base/notes.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {

/// Whether some statement has a vector among the loops that it does not share, a reduction if need
/// be.
bool has_own_vectors(const ClusterContext& in);

/// Rows that are computed at once.
struct RowBlock {
  std::vector<int64_t> sizes;  ///< along every member of the shared band, in its order
  bool shares_loads = false;   ///< rather than waiting times alone
};

/// More than one where the cluster is one reduction whose operands are read again along a member (a
/// matrix-vector product, a product of rows with rows), so that a block of results shares loads,
/// and where rows are so short that the sum of one would wait in every step for the step before.
RowBlock choose_row_block(const ClusterContext& in);

/// The Plan for a cluster as rows: the shared loops, in this order, in tiles of these sizes, one a
/// member, which are tasks (parallel if asked), and below their points the statements' own loops,
/// the vector innermost. Statements that use the same data share one nest where the loops agree and
/// dependences allow; initialisations move in front. Works without shared loops. With blocks, one
/// size a member, the points of a block are unrolled innermost; otherwise every nest may have
/// points of its own (`apart`), so that it passes over a tile by itself. Tells of the nests.
ClusterPlan plan_rows(const ClusterContext& in, const std::vector<Member>& members,
                      const std::vector<int64_t>& sizes, const std::vector<int64_t>& blocks,
                      bool parallel, bool apart, Notes& notes);

/// The same rows of copies: of what the nests' vectors read across, with neighbours along a shared
/// loop and lanes far apart, a task makes a copy in the order of its rows, and is as large as a
/// cache line along that loop. Nothing where no read is so, or a task's copies exceed the cache.
std::optional<ClusterPlan> copy_across(const ClusterContext& in, const Constraints& constraints,
                                       ClusterPlan plan);

}  // namespace tc::plan
