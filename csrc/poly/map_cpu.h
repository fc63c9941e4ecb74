// Loop roles on the CPU: which loops are tiled, run in parallel, and become vectors.
#pragma once

#include <map>
#include <string>

#include "compile.h"
#include "options.h"
#include "poly/fuse.h"

namespace tc::poly {

/// Tiles a cluster's shared band, orders its members so that the one that becomes a vector is
/// innermost (unit strides decide, then reuse), and marks parallel and vector loops. Runs after
/// fuse. With automatic options the tiles follow from the work of an iteration; otherwise
/// options.tile counts, outermost member first.
isl::schedule map_cpu(const Cluster& cluster, const ir::Program& program,
                      const std::map<std::string, Layout>& layouts,
                      const MappingOptions& options);

}  // namespace tc::poly
