// Bands of a schedule tree: loops around a cluster, the order of members, and marks that say what
// the members of a band become.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "poly/fuse.h"

namespace tc::poly {

enum class Role {
  Parallel,
  Vector,
  Unrolled,
  Block,         ///< of a CUDA grid
  Thread,        ///< of a CUDA block
  RegisterTile,  ///< the points of a register tile, which are unrolled or a vector
  Terms,         ///< those of its points that are terms of a reduction
  Intrinsic,     ///< a vector and terms that one instruction adds up
  Copy           ///< the elements of a copy, see promote
};

/// Points of a register tile along one of its loops, and of the last tile; 0 where the tiles divide
/// the extent.
struct RegisterPoints {
  int64_t full = 1, rest = 0;
};

/// What a mark node says of the band below it.
struct Mark {
  Role role = Role::Parallel;
  unsigned depth = 0;  ///< schedule dimensions above
  unsigned members = 0;
  std::vector<RegisterPoints> points;  ///< of a register tile, outermost first
  std::string instruction;             ///< of an intrinsic
};

/// Inserts a mark above the band; returns it.
isl::schedule_node insert_mark(const isl::schedule_node_band& band, Role role,
                               const std::vector<RegisterPoints>& points = {});
/// Inserts one above the node, whose loops are done by this instruction; returns it.
isl::schedule_node insert_intrinsic(const isl::schedule_node& node, const std::string& instruction);
/// What a mark of insert_mark says.
const Mark& mark_of(const isl::id& id);

/// Marks the last member of a band as the vector loop and, with `unroll`, the others as Unrolled;
/// returns the node at the band's old place.
isl::schedule_node mark_vector(const isl::schedule_node_band& band, bool unroll = false);
/// The same for the bands right above the leaves below `node`.
isl::schedule_node mark_leaves(const isl::schedule_node& node, bool unroll);

/// Inserts a permutable band above `node` whose member m is iterator positions[s][m] of statement
/// s, and returns it; the node itself where the band would have no member.
isl::schedule_node insert_band(const isl::schedule_node& node, const Statements& statements,
                               const Alignment& positions, bool coincident);
/// Inserts the cluster's outer loops above the node; returns what lies below them, which without
/// outer loops is the node.
isl::schedule_node insert_outer_loops(const isl::schedule_node& node, const Cluster& cluster);

/// Inserts a band of permutable members above the node.
isl::schedule_node_band insert_permutable_band(const isl::schedule_node& node,
                                               const isl::multi_union_pw_aff& schedule,
                                               bool coincident = true);
/// The band, which must be such a one, with its members in the order of these positions.
isl::schedule_node_band reorder(const isl::schedule_node_band& band, const std::vector<int>& order);

}  // namespace tc::poly
