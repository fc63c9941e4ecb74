// A Plan that was chosen, with the schedule tree that it makes and why.
#pragma once

#include "plan/members.h"
#include "plan/model/estimate.h"
#include "plan/options/constraints.h"
#include "plan/plan.h"
#include "poly/promote.h"

namespace tc::plan {

/// What Plans of a program are made for.
struct PlanContext {
  const Scop& scop;
  const Dependences& dependences;
  const Layouts& layouts;
  const MappingOptions& options;
  const CpuMachine& machine;
};

struct Proposal {
  ClusterPlan plan;
  poly::Mapped mapped;  ///< its tree and copies, what is to be said of it
  Estimate estimate;    ///< on the CPU, as soon as all of the program is planned
};

/// Applies a Plan with everything that was given by name. Copies that are refused leave it, with a
/// note for each, unless they were given: that is a CompilationError, as is a Plan that does not
/// fit.
Proposal apply_proposal(ClusterPlan plan, const Cluster& cluster, const Scop& scop,
                        const Constraints& constraints);

}  // namespace tc::plan
