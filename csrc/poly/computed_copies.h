// Copies that compute what they copy: the prologue of a reduction, in the copies of its operands.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile.h"
#include "poly/cpu_machine.h"
#include "poly/fuse.h"
#include "poly/promote.h"

namespace tc::poly {

/// Finds statements whose values copies may compute, so that their temporaries need not exist: T(n,
/// k) = exp(B(n, k)), where everything that reads T reads copies of it (see promote). The copies
/// are told so (Promotion::computed), and the statements returned are to be left out of their
/// clusters. Left alone are temporaries that a chain's iterations hand on, values under conditions
/// of indices, and what copies would compute more often than a pass over the temporary is worth.
std::vector<const ScopStatement*> compute_in_copies(const std::vector<Cluster>& clusters,
                                                    std::vector<Mapped>& mapped, const Scop& scop,
                                                    const std::map<std::string, Layout>& layouts,
                                                    const CpuMachine& machine);

/// Whether a statement is one that compute_in_copies may leave out, as far as it alone can say.
bool suits_copies(const ir::Statement& source);

/// The cluster without these statements, of which it has at least one more.
Cluster leave_out(const Cluster& cluster, const std::vector<const ScopStatement*>& statements,
                  const Dependences& dependences);

}  // namespace tc::poly
