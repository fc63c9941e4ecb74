// What planning knows of the loops that a cluster's statements share.
#pragma once

#include <string>
#include <vector>

#include "ir/accesses.h"
#include "ir/layout.h"
#include "machine/cpu.h"
#include "plan/plan.h"
#include "poly/fuse.h"

namespace tc::plan {

// Plans speak of isl's statements and clusters throughout.
using poly::Alignment;
using poly::Cluster;
using poly::Dependences;
using poly::Scop;
using poly::ScopStatement;

/// What Plans of a cluster are made and estimated for: its program, how tensors lie, the processor.
struct ClusterContext {
  const Cluster& cluster;
  const ir::Program& program;
  const Layouts& layouts;
  const CpuMachine& machine;
};

/// One member of a cluster's shared band.
struct Member {
  int position = 0;  ///< in the band as fuse made it, outermost first
  int64_t extent = 1;
  double cost = 0;  ///< memory operations of the cluster if this member is the vector
};

/// Lanes of a vector of the cluster's widest results.
int count_lanes(const Cluster& cluster, const ir::Program& program, int vector_bits);

/// In order of the band; costs are those of vectors of so many lanes.
std::vector<Member> analyze_members(const Cluster& cluster, const ir::Program& program,
                                    const Layouts& layouts, int lanes);

/// The iterator that a statement of the cluster, by its number, runs through in a member of the
/// shared band.
const ir::Iterator& iterator_along(const Cluster& cluster, const Member& member, size_t statement);

/// The name of a member's index in the text, as the last statement has it.
std::string name_of(const Cluster& cluster, const Member& member);
/// Those of all members of the shared band, by position.
std::vector<std::string> shared_names(const Cluster& cluster);
/// "m in 22 tiles of 6, n": tiles of shared loops, outermost first.
std::string describe_tiles(const Cluster& cluster, const std::vector<Tile>& tiles);

/// Moves the member to which consecutive addresses belong behind all others: the cheapest as a
/// vector, among equals the innermost of the text.
void move_vector_last(std::vector<Member>& members);

/// Memory operations for one instance of a statement when `iterator` is the vector, of so many
/// lanes at most: contiguous ones count one for all lanes, invariant reads next to nothing, the
/// others one for each lane and more. The result of a reduction along the vector costs its share of
/// adding up the lanes.
double vector_cost(const ScopStatement& statement, const ir::Program& program,
                   const Layouts& layouts, const ir::Iterator& iterator, int most_lanes);

/// How far apart all results of a cluster lie from their neighbours along a member, in elements; 0
/// where that is not the same for all.
int64_t distance_of_results(const ClusterContext& in, const Member& member);

/// An access of the cluster's statement with that number, in terms of the loops of the cluster: of
/// reads with the same text, every iteration of the loops that the statements share touches the
/// same elements.
std::string shared_text(const Cluster& cluster, size_t statement, const ir::MemoryAccess& access);

/// Whether there is one statement, with its initialization perhaps, which has the same source.
bool computes_one(const Cluster& cluster);

/// How often a statement runs.
int64_t instances(const ScopStatement& statement);

/// Accesses of all instances of the cluster.
int64_t count_accesses(const Cluster& cluster, const ir::Program& program);

/// Loops that all statements share: the outer ones and the band.
size_t count_shared(const Cluster& cluster);

/// Whether some statement has loops below the shared band.
bool has_inner_loops(const Cluster& cluster);

/// "m one by one (256)" of the loops around the cluster; how many iterations they have.
std::string describe_outer_loops(const Cluster& cluster);
int64_t outer_iterations(const Cluster& cluster);

/// Tasks of a Plan that run at the same time, if there are cores for all.
int64_t count_tasks(const ClusterPlan& plan, const Cluster& cluster);

/// Tiles of these sizes, one a member, that cover the band.
int64_t count_tiles(const std::vector<Member>& members, const std::vector<int64_t>& sizes);
/// The same of shared loops by their names.
int64_t count_tiles(const Cluster& cluster, const std::vector<Tile>& tiles);

/// A Plan that says which statements these are, in which order the members' points go and, where
/// there are sizes, one a member, which tiles are tasks.
ClusterPlan begin_plan(const Cluster& cluster, const std::vector<Member>& members,
                       const std::vector<int64_t>& sizes = {}, Tasks run = Tasks::Serial);
/// Tiles of members, in their order.
std::vector<Tile> make_tiles(const Cluster& cluster, const std::vector<Member>& members,
                             const std::vector<int64_t>& sizes);
}  // namespace tc::plan
