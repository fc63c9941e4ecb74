// Clusters as rows: every statement is vectorised along a loop of its own below the shared band.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "poly/map_cpu.h"
#include "poly/members.h"

namespace tc::poly {

/// Memory operations of the cluster when each statement's vector is the best of the loops that it
/// does not share, a reduction if need be; infinite when none has such loops. To be compared with
/// Member::cost.
double row_cost(const Cluster& cluster, const ir::Program& program,
                const std::map<std::string, Layout>& layouts, const CpuMachine& machine);

/// Rows that are computed at once, one number a member of the shared band in its order: more than 1
/// where the cluster is one reduction whose operands are read again along a member (a
/// matrix-vector product, a product of rows with rows), so that a block of results shares loads.
std::vector<int64_t> choose_row_block(const Cluster& cluster, const ir::Program& program,
                                      const std::map<std::string, Layout>& layouts,
                                      const CpuMachine& machine);

/// The tree of a cluster as rows: the shared band, its members in this order, in tiles of these
/// sizes, one a member (parallel if asked), and below its points the statements' own loops, the
/// vector innermost. Statements that use the same data share one nest where the loops agree and
/// dependences allow; initialisations move in front. Works without a shared band. With blocks, one
/// size a member, the points of a block are unrolled innermost; otherwise every nest may have
/// points of its own (`apart`), so that it passes over a tile by itself.
Mapped map_rows(const Cluster& cluster, const std::vector<Member>& members,
                const std::vector<int64_t>& sizes, const std::vector<int64_t>& blocks,
                const ir::Program& program, const std::map<std::string, Layout>& layouts,
                const CpuMachine& machine, bool parallel, bool apart);

}  // namespace tc::poly
