// What Executor.explain() says of a mapping.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/notes.h"
#include "plan/forms/register_blocks.h"
#include "plan/members.h"
#include "plan/options/constraints.h"
#include "poly/promote.h"

namespace tc::plan {

/// A statement of the text, with the sizes of its indices.
Note describe_statement(const ir::Statement& statement);
/// Every one, once.
Notes describe_statements(const std::vector<const ScopStatement*>& statements);

/// Cycles of the choice, first, and of what lost.
Note describe_cycles(const std::vector<std::pair<double, std::string>>& choices);
/// Memory operations of the cluster with each of the members as the vector, the last one first.
Note describe_vectors(const Cluster& cluster, const std::vector<Member>& members);

/// "48 in parallel, <why>: m in 3 tiles of 48, n in 16 tiles of 64". Where the options give sizes,
/// that is why.
Note describe_tasks(const ClusterPlan& plan, const Cluster& cluster, const Constraints& constraints,
                    const std::string& why);

/// Form, vectors and reduction tiles of a register block.
Notes describe_block(const Cluster& cluster, const RegisterBlock& block, const CpuMachine& machine);
/// "4 of i x 32 of r", of a block.
std::string describe_sides(const std::vector<Tile>& registers);
/// How the statements that add terms read their operands along the block's vector.
Note describe_operands(const ClusterContext& in, const RegisterBlock& block,
                       const std::vector<poly::Promotion>& promotions);

/// Box, bytes and order of every copy.
Notes describe_copies(const ClusterContext& in, const std::vector<poly::Promotion>& promotions);

}  // namespace tc::plan
