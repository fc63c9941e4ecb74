// Loop roles on the CPU: which loops are tiled, run in parallel, and become vectors.
#pragma once

#include <map>
#include <string>

#include "ir/layout.h"
#include "machine/cpu.h"
#include "options.h"
#include "poly/fuse.h"
#include "poly/promote.h"

namespace tc::poly {

/// Tiles a cluster's shared band, orders its members so that the one that becomes a vector is
/// innermost (unit strides decide, then reuse), and marks parallel and vector loops. Runs after
/// fuse. With automatic options the tiles follow from the work of an iteration; otherwise
/// options.tile counts, outermost member first.
///
/// A cluster whose statements have better vectors among their own loops, reductions for instance,
/// is mapped as rows instead (see map_rows); that works without a shared band as well.
///
/// A scatter has a mapping of its own (see map_scatter).
///
/// With automatic options, a cluster of reductions whose statements all have the shared band's
/// dimensions and no more results gets register tiles instead (see map_register_tiles).
Mapped map_cpu(const Cluster& cluster, const Scop& scop,
               const std::map<std::string, Layout>& layouts, const MappingOptions& options,
               const CpuMachine& machine);

}  // namespace tc::poly
