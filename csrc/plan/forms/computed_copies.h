// Copies that compute what they copy: the prologue of a reduction, in the copies of its operands.
#pragma once

#include <functional>
#include <vector>

#include "plan/proposal.h"

namespace tc::plan {

/// Leaves out statements whose values copies may compute, so that their temporaries need not exist:
/// T(n, k) = exp(B(n, k)), where everything that reads T reads copies of it (see promote). The
/// copies are told so (Promotion::computed); a cluster that has other statements as well is mapped
/// again, by `map`. Left alone are temporaries that a chain's iterations pass on, values under
/// conditions of indices, what tables pick, which is walked through row by row (measured: columns
/// of 16 MiB picked in copies 1.8 times slower), what is read at quotients of the index of the rows
/// (int8 with scales of groups, 1024 x 1024 for 16 results: 2.5 times slower), and what copies
/// would compute more often than a pass over the temporary is worth. Returns whether any was left
/// out. `mapped` are the clusters, one by one. `left` are the statements that leave_to_copies took:
/// where copies do not compute all that is read of one, that is a CompilationError.
bool compute_in_copies(std::vector<Cluster>& clusters, std::vector<Proposal>& mapped,
                       const PlanContext& in, const std::vector<const ScopStatement*>& left,
                       const std::function<Proposal(const Cluster&)>& map);

/// Takes the statements that the options leave to copies out of the clusters; returns them.
std::vector<const ScopStatement*> leave_to_copies(std::vector<Cluster>& clusters,
                                                  const PlanContext& in);

/// Whether a cluster reads a temporary that copies might compute, and its Plan has none of it.
bool lacks_copies(const Cluster& cluster, const Proposal& proposal, const Scop& scop);

/// Whether a statement is one that compute_in_copies may leave out, as far as it can say alone.
bool suits_copies(const ir::Statement& source);

}  // namespace tc::plan
