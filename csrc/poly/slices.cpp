#include "poly/slices.h"

#include <set>

#include "ir/accesses.h"
#include "ir/expressions/reads.h"

namespace tc::poly {

using namespace Halide::Internal;

namespace {

/// Whether an access is at the iteration of the outer loops in the first dimensions.
bool is_in_slice(const ir::MemoryAccess& access, const ir::Statement& statement,
                 const std::vector<int>& outer) {
  if (access.subscripts.size() < outer.size()) return false;
  for (size_t d = 0; d < outer.size(); ++d) {
    const ir::Iterator& it = statement.domain[outer[d]];
    const auto* index = access.subscripts[d].as<Variable>();
    if (!index || index->name != it.name || !is_const_zero(it.min)) return false;
  }
  return true;
}

}  // namespace

std::map<std::string, Slices> find_slices(const std::vector<Cluster>& clusters, const Scop& scop,
                                          const Layouts& layouts) {
  const ir::Program& program = *scop.program;
  std::map<std::string, size_t> chain_of;  // the first cluster's number
  std::set<std::string> others;
  std::map<std::string, Slices> found;
  size_t chain = 0;
  for (size_t c = 0; c < clusters.size(); ++c) {
    const Cluster& cluster = clusters[c];
    if (!cluster.joined) chain = c;
    for (size_t s = 0; s < cluster.statements.size(); ++s) {
      const ir::Statement& statement = *cluster.statements[s]->source;
      for (const ir::MemoryAccess& access : accesses(program, statement)) {
        const std::string& name = access.tensor;
        if (program.tensor(name).role != ir::TensorRole::Temporary) continue;
        const bool here = chain_of.emplace(name, chain).first->second == chain;
        if (cluster.outer.empty() || !here || ir::is_scatter(statement) ||
            (statement.guard.defined() && ir::reads(statement.guard, name)) ||
            !is_in_slice(access, statement, cluster.outer[s])) {
          others.insert(name);
          continue;
        }
        const Layout& layout = layouts.at(name);
        const auto outer = static_cast<std::ptrdiff_t>(cluster.outer[s].size());
        found[name] = {{layout.sizes.begin(), layout.sizes.begin() + outer},
                       {layout.strides.begin(), layout.strides.begin() + outer}};
      }
    }
  }
  for (const std::string& name : others) found.erase(name);
  return found;
}

}  // namespace tc::poly
