#include "plan/model/statement_reuse.h"

#include <algorithm>
#include <cstdint>

namespace tc::plan {

std::set<std::string> own_temporaries(const ClusterContext& in) {
  std::set<std::string> result;
  for (const ScopStatement* statement : in.cluster.statements)
    if (in.program.tensor(statement->source->tensor).role == ir::TensorRole::Temporary)
      result.insert(statement->source->tensor);
  for (const ir::Statement& statement : in.program.statements) {
    if (result.empty()) break;
    const bool inside = std::any_of(
        in.cluster.statements.begin(), in.cluster.statements.end(),
        [&](const ScopStatement* each) { return each->source->name == statement.name; });
    if (inside) continue;
    for (const ir::MemoryAccess& access : accesses(in.program, statement))
      result.erase(access.tensor);
  }
  return result;
}

StatementReuse::StatementReuse(const Cluster& cluster, const std::set<std::string>& own)
    : cluster_(cluster), own_(own), found_(cluster.statements.size()) {}

void StatementReuse::add(size_t statement, const StatementLoops& nest,
                         const StatementAccesses& accesses) {
  std::vector<int64_t> points = accesses.extents();
  for (size_t l = 0; l < nest.around; ++l) points[nest.loops[l].iterator] = nest.loops[l].size;
  std::set<std::string> own;
  for (const Access& access : accesses.all()) {
    const std::string text = shared_text(cluster_, statement, access.access);
    const bool known = accessed_.count(text) > 0;
    if (!known) bytes_ += access.footprint.lines(points) * static_cast<double>(kLineBytes);
    own.insert(text);
    const bool unread = access.access.write && own_.count(access.access.tensor) > 0;
    found_[statement].push_back(!access.copy && (known || unread));
  }
  accessed_.insert(own.begin(), own.end());
}

}  // namespace tc::plan
