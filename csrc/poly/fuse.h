// Clusters: statements that share outer loops. Runs after dependences, before tiling.
#pragma once

#include <string>
#include <vector>

#include "ir/layout.h"
#include "poly/dependences.h"
#include "poly/fusion_strategy.h"

namespace tc::poly {

using Statements = std::vector<const ScopStatement*>;
/// How each statement sees each member of a band: the position of its iterator.
using Alignment = std::vector<std::vector<int>>;  // [statement][member]

/// Statements under one outer band. Their schedule tree, as a Plan without tiles has it, is
///   domain - [band of `shared` coincident members] - sequence of the statements' remaining bands,
/// where the band is absent for `shared` = 0 and the sequence for a single statement. All members
/// of all bands run through one iterator of each statement with coefficient 1, so nothing is skewed
/// or reversed.
struct Cluster {
  Statements statements;
  Alignment alignment;
  Alignment outer;  ///< members of the loops around all this (see chain); mostly none
  bool outer_parallel = false;
  bool joined = false;      ///< runs inside the same outer loops as the cluster before
  Dependences dependences;  ///< among the statements
  unsigned shared = 0;
  std::string apart;  ///< why it is not one with the cluster in front of it; empty for the first
};

/// Groups neighbouring statements by a strategy. A statement's initialisation always goes with its
/// updates.
///
/// `rows` adds the rule of the default options on the CPU: statements that use the same data also
/// share fewer members, down to one, where what is left below them is a long contiguous row for
/// each statement, the rows are many enough to be spread over threads, and no reduction loses a
/// member of its results. A normalisation's passes over a row then find it in the cache. Statements
/// that write the ends of another one's rows, however short, go with it. Reductions
/// to single elements share a cluster as well. In turn, statements stay apart where a sum of
/// products would lose a member along which it uses an operand again, and with it its block, where
/// others have more dimensions than such a sum, whose block computes one element for each point of
/// the members, and where two of them write different tensors or add up many terms.
///
/// A scatter has a cluster of its own, or with `rows` one with others that add up in the same tensor
/// at the same points: these share where a point goes.
///
/// Statements that one list of `given` names are together, those that two lists name are apart,
/// whatever the strategy says: CompilationError where they are no neighbours, or one is a scatter
/// that could not share the others' loops.
std::vector<Cluster> fuse(const Scop& scop, const Dependences& dependences, FusionStrategy strategy,
                          bool rows, const Layouts& layouts, int64_t cache_bytes,
                          const std::vector<std::vector<std::string>>& given = {});

/// Whether one of the names is that of the statement: "S0" is its initialisation as well.
bool is_named(const ScopStatement& statement, const std::vector<std::string>& names);

/// The alignment of the statements and one more: those of the members given for which some iterator
/// of `next` has the same range and every dependence on the statements distance zero.
Alignment align(const Dependences& dependences, const Statements& statements,
                const Alignment& alignment, const ScopStatement& next);

/// The cluster of statements that share these members, inside these outer loops.
Cluster make_cluster(const Statements& statements, const Alignment& alignment,
                     const Dependences& dependences, const Alignment& outer = {});

/// Iterators of a statement that are no members of its cluster's band, in order of the text.
std::vector<int> rest(const ScopStatement& statement, const std::vector<int>& members);
/// The same, without those of the cluster's outer loops, of its statement with that number.
std::vector<int> rest(const Cluster& cluster, size_t statement);

}  // namespace tc::poly
