// What loop mapping knows of a cluster's shared band, and the marks that carry its decisions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile.h"
#include "poly/fuse.h"

namespace tc::poly {

/// One member of a cluster's shared band.
struct Member {
  int position = 0;    ///< in the band as fuse made it, outermost first
  int64_t extent = 1;
  double cost = 0;     ///< memory operations of the cluster if this member is the vector
};

/// In order of the band.
std::vector<Member> analyze_members(const Cluster& cluster, const ir::Program& program,
                                    const std::map<std::string, Layout>& layouts);

/// Moves the member to which consecutive addresses belong behind all others: the cheapest as a
/// vector, among equals the innermost of the text. Returns whether it has more than one iteration.
bool move_vector_last(std::vector<Member>& members);

/// Accesses of all instances of the cluster.
int64_t count_accesses(const Cluster& cluster, const ir::Program& program);

/// Whether some statement has loops below the shared band.
bool has_inner_loops(const Cluster& cluster);

/// The shared band with its members in this order.
isl::schedule_node_band reorder(const isl::schedule_node_band& band,
                                const std::vector<Member>& order);

/// Marks say what the members of the band below them are: "<role>@<depth>+<members>", where depth
/// counts the schedule dimensions above. Roles: parallel, vector, block, thread.
struct Mark {
  std::string role;
  unsigned depth, members;
};
isl::schedule_node insert_mark(const isl::schedule_node_band& band, const std::string& role);
Mark parse_mark(const std::string& text);

}  // namespace tc::poly
