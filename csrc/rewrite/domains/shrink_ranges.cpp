#include "rewrite/domains/shrink_ranges.h"

#include <optional>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "poly/index_sets.h"

namespace tc::rewrite {
namespace {

using namespace ir;

/// The index of the reduction that a condition speaks of, if it speaks of nothing else.
Iterator* only_index(Statement& statement, const Expr& condition) {
  Iterator* found = nullptr;
  for (Iterator& it : statement.domain) {
    if (!expr_uses_var(condition, it.name)) continue;
    if (found || !it.reduction) return nullptr;
    found = &it;
  }
  return has_data(condition) ? nullptr : found;
}

/// The index's range where the condition holds, if that is one.
bool shrink(Iterator& it, const Expr& condition) {
  if (extent_of(it) == 0) return true;
  poly::Context context;
  const poly::IndexSets range(context.get(), {it});
  const std::optional<isl::set> holds = range.where(condition);
  if (!holds) return false;
  if (holds->is_empty()) {
    context.require_memory();
    it.extent = 0;
    return true;
  }
  const int64_t first = poly::to_integer(holds->dim_min_val(0));
  const int64_t last = poly::to_integer(holds->dim_max_val(0));
  Iterator shrunk = it;
  shrunk.min = static_cast<int>(first);
  shrunk.extent = static_cast<int>(last - first + 1);
  if (!poly::IndexSets(context.get(), {shrunk}).points().is_equal(*holds)) return false;
  context.require_memory();
  it = shrunk;
  return true;
}

}  // namespace

void shrink_ranges(Program& program) {
  for (Statement& statement : program.statements) {
    if (statement.reduction == Reduction::None || is_scatter(statement)) continue;
    const std::optional<Choice> choice = find_choice(statement.value);
    if (!choice || !equal(choice->no, identity(statement.reduction, statement.value.type())))
      continue;
    Expr left;
    bool any = false;
    for (const Expr& condition : list_conditions(choice->condition)) {
      Iterator* it = only_index(statement, condition);
      if (it && shrink(*it, condition))
        any = true;
      else
        left = !left.defined()       ? condition
               : has_data(condition) ? choose_lazily(left, condition, const_false())
                                     : left && condition;
    }
    if (!any) continue;
    if (!left.defined())
      statement.value = choice->yes;
    else if (statement.value.as<Select>())
      statement.value = Select::make(left, choice->yes, choice->no);
    else
      statement.value = choose_lazily(left, choice->yes, choice->no);
  }
}

}  // namespace tc::rewrite
