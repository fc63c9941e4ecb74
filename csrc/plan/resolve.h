// A Plan in terms of a cluster: its names are loops, statements and accesses of that.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/members.h"
#include "plan/plan.h"
#include "poly/promote.h"

namespace tc::plan {

/// Statements of a cluster, by number, and the iterators of their own loops.
struct Nest {
  std::vector<size_t> statements;
  Alignment loops;  ///< of every statement, outermost first
  bool vector = false;
  /// Of every loop, the iterations that are in this nest, and how many of them are terms of a
  /// register tile; 0: it is a loop around that.
  struct Range {
    int64_t begin = 0, end = 0, terms = 0;
    bool is_loop() const { return terms == 0 || end - begin > terms; }
  };
  std::vector<Range> ranges;
};

struct Resolved {
  std::vector<Member> members;                      ///< in the order of the points' loops
  std::vector<int64_t> task_sizes, register_sizes;  ///< by number in members
  std::vector<int> task_order;                      ///< the same
  /// In order. Where a register tile takes terms of a loop, all its tiles in a nest have as many:
  /// those that are left over are in a nest of their own.
  std::vector<Nest> nests;
  std::vector<poly::StatementRead> reads;  ///< that copies serve, one each
};

/// The reason says what of the Plan is not of this cluster, or may not be: a statement in front of
/// one that it depends on, lanes that may meet, an instruction that computes something else.
Result<Resolved> resolve(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop);

/// The iterator of a nest's loop, as its first statement has it.
const ir::Iterator& own_iterator(const Nest& nest, size_t loop, const Cluster& cluster);

}  // namespace tc::plan
