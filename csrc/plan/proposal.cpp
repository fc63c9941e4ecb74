#include "plan/proposal.h"

#include "base/error.h"
#include "plan/apply.h"

namespace tc::plan {

Proposal apply_proposal(ClusterPlan plan, const Cluster& cluster, const Scop& scop,
                        const Constraints& constraints) {
  constrain(plan, constraints);
  Applied applied = apply(plan, cluster, scop).value();
  std::vector<CopyPlan> made;
  for (size_t c = 0; c < plan.copies.size(); ++c) {
    const auto refused = applied.refused.find(c);
    if (refused != applied.refused.end() && constraints.cluster.copies)
      throw CompilationError(
          concat("the options copy ", plan.copies[c].read, ": ", refused->second.text));
    if (refused == applied.refused.end())
      made.push_back(plan.copies[c]);
    else
      applied.mapped.notes.push_back({"no copy", refused->second.text});
  }
  plan.copies = std::move(made);
  return {std::move(plan), std::move(applied.mapped), {}};
}

}  // namespace tc::plan
