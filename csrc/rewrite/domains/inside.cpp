#include "rewrite/domains/inside.h"

#include "ir/expressions/simplify.h"
#include "ir/visit.h"
#include "poly/index_sets.h"

namespace tc::rewrite {

using namespace ir;

bool lies_inside(const Call* read, const Program& program, const std::vector<Iterator>& domain,
                 const std::vector<Expr>& conditions) {
  Bounds bounds;
  for (const Iterator& it : domain)
    bounds.push(it.name, {it.min, simplify(it.min + it.extent - 1)});
  if (stays_inside(read, program, bounds)) return true;
  const auto tensor = program.tensors.find(read_name(read));
  if (tensor == program.tensors.end()) return true;  // a scalar
  poly::Context context;
  poly::IndexSets points(context.get(), domain);
  for (const Expr& condition : conditions)
    if (const auto holds = points.where(condition)) points.restrict_to(*holds);
  for (size_t d = 0; d < read->args.size(); ++d) {
    const auto inside = points.inside(read->args[d], *as_const_int(tensor->second.sizes[d]));
    if (!inside || !points.points().is_subset(*inside)) return false;
  }
  context.require_memory();
  return true;
}

bool reads_outside(const Expr& e, const Program& program, const std::vector<Iterator>& domain,
                   const std::vector<Expr>& conditions) {
  return any<Call>(e, [&](const Call* call) {
    return !read_name(call).empty() && !lies_inside(call, program, domain, conditions);
  });
}

}  // namespace tc::rewrite
