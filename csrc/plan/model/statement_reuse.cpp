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

bool is_read_later(const ClusterContext& in, size_t statement) {
  const poly::Statements& all = in.cluster.statements;
  const ir::Statement& source = *all[statement]->source;
  return std::any_of(all.begin() + static_cast<long>(statement) + 1, all.end(),
                     [&](const ScopStatement* later) {
                       if (later->source == &source) return false;
                       const auto reads = accesses(in.program, *later->source);
                       return std::any_of(reads.begin(), reads.end(), [&](const auto& access) {
                         return !access.write && access.tensor == source.tensor;
                       });
                     });
}

double touched_bytes(const ClusterContext& in, const std::set<std::string>& own) {
  std::set<std::string> tensors;
  for (const ScopStatement* statement : in.cluster.statements)
    for (const ir::MemoryAccess& access : accesses(in.program, *statement->source))
      tensors.insert(access.tensor);
  double bytes = 0;
  for (const std::string& name : tensors) {
    if (own.count(name)) continue;
    double whole = in.program.tensor(name).type.bytes();
    const Layout& layout = in.layouts.at(name);
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      if (layout.strides[d] != 0) whole *= static_cast<double>(layout.sizes[d]);
    bytes += whole;
  }
  return bytes;
}

StatementReuse::StatementReuse(const Cluster& cluster, const std::set<std::string>& own)
    : cluster_(cluster), own_(own), found_(cluster.statements.size()), held_(found_) {}

void StatementReuse::add(size_t statement, const StatementLoops& nest,
                         const StatementAccesses& accesses, bool in_registers) {
  std::vector<int64_t> points = accesses.extents();
  for (size_t l = 0; l < nest.around; ++l) points[nest.loops[l].iterator] = nest.loops[l].size;
  const bool reduces = cluster_.statements[statement]->source->reduction != ir::Reduction::None;
  std::set<std::string> own;
  for (const Access& access : accesses.all()) {
    const std::string text = shared_text(cluster_, statement, access.access);
    const bool known = accessed_.count(text) > 0;
    if (!known) bytes_ += access.footprint.lines(points) * static_cast<double>(kLineBytes);
    own.insert(text);
    const bool unread = access.access.write && own_.count(access.access.tensor) > 0;
    found_[statement].push_back(!access.copy && (known || unread));
    const auto before = in_tile_.find(text);
    const bool write = access.access.write, again = before != in_tile_.end();
    const bool in_tile = in_registers && (again || (write && (reduces || unread)));
    held_[statement].push_back(in_tile && (!write || unread));
    if (!in_tile || !write) continue;
    if (again) held_[before->second.first][before->second.second] = true;
    in_tile_[text] = {statement, held_[statement].size() - 1};
  }
  accessed_.insert(own.begin(), own.end());
}

}  // namespace tc::plan
