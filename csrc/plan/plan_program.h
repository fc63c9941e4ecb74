// The Plans of a whole program: which statements share loops, and how their clusters run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "ir/layout.h"
#include "machine/cpu.h"
#include "plan/options/options.h"
#include "plan/proposal.h"
#include "poly/slices.h"

namespace tc::plan {

struct ProgramPlan {
  std::vector<Cluster> clusters;               ///< in order of execution
  std::vector<Proposal> groups;                ///< one a cluster
  std::map<std::string, poly::Slices> slices;  ///< temporaries of which chains make slices
  /// Names of statements that have nothing to do at these sizes, where options speak of some.
  std::vector<std::string> absent;
};

/// Fuses statements, chains their clusters, and proposes a Plan for each.
ProgramPlan plan_program(const Scop& scop, const Layouts& layouts, const MappingOptions& options,
                         bool cuda, const CpuMachine& machine, StageClock& clock);

}  // namespace tc::plan
