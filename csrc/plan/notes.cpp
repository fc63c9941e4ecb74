#include "plan/notes.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "ir/scan.h"

namespace tc::plan {
namespace {

using Halide::Internal::as_const_int;

/// How a read moves when the vector's index grows by one.
std::string describe_read(const ir::MemoryAccess& read, const Layout& layout,
                          const std::string& iterator, const std::string& name, bool copied) {
  auto stride = stride_along(read, layout, iterator);
  if (stride == 0) return "one element for all lanes";
  if (stride == 1)
    return concat("contiguous along ", name,
                  copied ? ", but far apart along the reduction: copied" : ", read where it lies");
  if (stride == -1)
    return concat("contiguous along ", name, " in reverse order",
                  copied ? ": copied" : ", reversed in registers");
  std::string distance =
      stride ? concat("neighbours along ", name, " lie ", *stride, " elements apart")
             : concat("neighbours along ", name, " lie at varying distances");
  return distance + (copied ? ": copied" : ": gathered");
}

}  // namespace

Note describe_statement(const ir::Statement& source) {
  std::vector<std::string> results, terms;
  for (const ir::Iterator& iterator : source.domain) {
    std::string text = concat(iterator.name, " ", extent_of(iterator));
    if (!Halide::Internal::is_const_zero(iterator.min))
      text += concat(" from ", *as_const_int(iterator.min));
    if (!iterator.meaning.empty()) text += " (" + iterator.meaning + ")";
    (iterator.reduction ? terms : results).push_back(text);
  }
  std::string sizes = results.empty() ? "one result" : join(results);
  if (!terms.empty())
    sizes += (ir::is_scan(source) ? "; in order of " : "; reduction over ") + join(terms);
  std::string text = ir::assignment_text(source);
  if (!source.meaning.empty()) text = concat(source.meaning, ", in ", source.tensor);
  return {source.name, text + "\n" + sizes};
}

Notes describe_statements(const std::vector<const ScopStatement*>& statements) {
  Notes notes;
  std::set<const ir::Statement*> seen;
  for (const ScopStatement* statement : statements)
    if (seen.insert(statement->source).second)
      notes.push_back(describe_statement(*statement->source));
  return notes;
}

Note describe_cycles(const std::vector<std::pair<double, std::string>>& choices) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [cycles, what] : choices) rows.emplace_back(count_text(cycles), what);
  return {"cycles", table(rows)};
}

Note describe_vectors(const Cluster& cluster, const std::vector<Member>& members) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (size_t m = members.size(); m-- > 0;)
    if (members[m].extent > 1)
      rows.emplace_back(count_text(members[m].cost),
                        "memory operations along " + name_of(cluster, members[m]));
  return {"vectors", table(rows)};
}

Note describe_tasks(const ClusterPlan& plan, const Cluster& cluster, const Constraints& constraints,
                    const std::string& why) {
  const bool parallel = plan.run_tasks == Tasks::Parallel;
  int64_t count = count_tiles(cluster, plan.tasks);
  std::string tiles = describe_tiles(cluster, plan.tasks);
  if (count <= 1) return {"tiles", tiles};
  return {parallel ? "tasks" : "tiles",
          concat(count, parallel ? " in parallel, " : ", ",
                 constraints.sizes_tasks() ? "as the options say" : why, ": ", tiles)};
}

Notes describe_block(const Cluster& cluster, const RegisterBlock& block,
                     const CpuMachine& machine) {
  const Member& vector = block.members.back();
  std::vector<std::string> sides, tails;
  int64_t registers = (block.points.back() + block.lanes - 1) / block.lanes;
  for (size_t m = 0; m < block.members.size(); ++m) {
    std::string name = name_of(cluster, block.members[m]);
    bool last = m + 1 == block.members.size();
    if (block.points[m] == 1 && !last) continue;
    sides.push_back(concat(block.points[m], " of ", name));
    if (last) sides.back() += concat(" (", plural(registers, "vector"), " of ", block.lanes, ")");
    if (int64_t rest = block.members[m].extent % block.points[m])
      tails.push_back(concat(rest, " of ", name));
  }
  for (size_t m = 0; m + 1 < block.points.size(); ++m) registers *= block.points[m];
  std::string text =
      concat("a block of results in registers: ", join(sides, " x "), "\n", registers, " of ",
             machine.vector_registers, " registers hold it for ",
             block.reduction_tile.empty() ? "the whole" : "a tile of the", " reduction");
  if (!tails.empty()) text += "; at the ends " + join(tails);
  Notes notes = {{"form", text}};
  std::vector<std::pair<std::string, std::string>> vectors = {
      {count_text(block.cycles),
       concat("cycles along ", name_of(cluster, vector), ", ", count_text(block.moves),
              " of them for copies and results")}};
  for (const auto& [position, cycles] : block.vectors)
    if (position != vector.position && cycles < std::numeric_limits<double>::infinity())
      vectors.emplace_back(count_text(cycles), "along " + shared_names(cluster)[position]);
  notes.push_back({"vectors", table(vectors)});
  if (block.reduction_tile.empty()) return notes;
  std::vector<std::string> parts;
  size_t k = 0;
  for (const ir::Iterator& iterator : block.packed[0].statement->source->domain)
    if (iterator.reduction)
      parts.push_back(concat(block.reduction_tile[k++], " of ", iterator.name));
  notes.push_back(
      {"reduction", concat(join(parts, " x "), ": copies for the whole reduction exceed ",
                           bytes_text(static_cast<double>(machine.cache_bytes)))});
  return notes;
}

std::string describe_sides(const std::vector<Tile>& registers) {
  std::vector<std::string> sides;
  for (const Tile& tile : registers) sides.push_back(concat(tile.size, " of ", tile.index));
  return join(sides, " x ");
}

Note describe_operands(const ClusterContext& in, const RegisterBlock& block,
                       const std::vector<poly::Promotion>& promotions) {
  const Cluster& cluster = in.cluster;
  std::vector<std::string> lines;
  std::string name = name_of(cluster, block.members.back());
  for (size_t s = 0; s < cluster.statements.size(); ++s) {
    const ScopStatement& statement = *cluster.statements[s];
    if (statement.initialization || statement.source->reduction == ir::Reduction::None) continue;
    const std::string& iterator = iterator_along(cluster, block.members.back(), s).name;
    for (const ir::MemoryAccess& access : accesses(in.program, *statement.source)) {
      if (access.write) continue;
      // A copy serves all statements that make the same read.
      bool copied = std::any_of(
          promotions.begin(), promotions.end(),
          [&](const poly::Promotion& promotion) { return promotion.tensor() == access.tensor; });
      std::string line =
          access.tensor + ": " +
          describe_read(access, in.layouts.at(access.tensor), iterator, name, copied);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  }
  return {"operands", join(lines, "\n")};
}

Notes describe_copies(const ClusterContext& in, const std::vector<poly::Promotion>& promotions) {
  Notes notes;
  for (const poly::Promotion& promotion : promotions) {
    const ir::MemoryAccess& read = promotion.reads.front().access;
    const std::vector<int64_t>& strides = in.layouts.at(read.tensor).strides;
    poly::CopyLayout order, there;
    for (const poly::CopyDimension& each : promotion.layout)
      if (promotion.sizes[each.dimension] > 1) order.push_back(each);
    for (size_t d = 0; d < strides.size(); ++d)
      if (promotion.sizes[d] > 1) there.emplace_back(d);
    std::stable_sort(there.begin(), there.end(), [&](const auto& a, const auto& b) {
      return strides[a.dimension] > strides[b.dimension];
    });
    auto subscripts = [&](const poly::CopyLayout& dimensions) {
      std::vector<std::string> parts;
      for (const poly::CopyDimension& each : dimensions) {
        const ir::Expr& subscript = read.subscripts[each.dimension];
        const bool plain = each.is_whole() || subscript.as<Halide::Internal::Variable>();
        const std::string text = ir::plain_text(subscript);
        parts.push_back((plain ? text : "(" + text + ")") + each.suffix());
      }
      return "(" + join(parts) + ")";
    };
    std::vector<std::string> sizes;
    for (const poly::CopyDimension& each : order)
      sizes.push_back(concat(each.size(promotion.sizes[each.dimension])));
    int64_t bytes = promotion.elements * in.program.tensor(read.tensor).type.bytes();
    std::string text = concat(read.tensor, ": ", sizes.empty() ? "1" : join(sizes, " x "),
                              " elements, ", bytes_text(static_cast<double>(bytes)));
    if (!order.empty()) text += ", as " + subscripts(order);
    if (subscripts(order) != subscripts(there)) text += ", transposed from " + subscripts(there);
    notes.push_back({"copy", text});
  }
  return notes;
}

}  // namespace tc::plan
