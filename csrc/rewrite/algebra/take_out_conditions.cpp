#include "rewrite/algebra/take_out_conditions.h"

#include <optional>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/domains/inside.h"

namespace tc::ir {
namespace {

/// The condition, and what it chooses where it says the same of all terms, if these are many.
std::optional<Choice> find_common_condition(const Statement& statement, const Program& program,
                                            const CpuMachine& machine) {
  const std::optional<Choice> choice = find_choice(statement.value);
  if (!choice || !has_data(choice->condition) || statement.reduction == Reduction::None ||
      statement.guard.defined() || is_scatter(statement) || reads(statement, statement.tensor) ||
      !equal(choice->no, identity(statement.reduction, statement.value.type())))
    return std::nullopt;
  const std::vector<Iterator> reduced = reduced_indices(statement);
  for (const Iterator& it : reduced)
    if (expr_uses_var(choice->condition, it.name)) return std::nullopt;
  if (count_points(reduced) < machine.least(machine::kSharedTerms)) return std::nullopt;
  return rewrite::reads_outside(choice->yes, program, statement.domain) ? std::nullopt : choice;
}

}  // namespace

void take_out_conditions(Program& program, Layouts& layouts, const CpuMachine& machine) {
  put_in_front(program, [&](Statement& statement) -> std::vector<Statement> {
    const std::optional<Choice> choice = find_common_condition(statement, program, machine);
    if (!choice) return {};
    const bool eager = statement.value.as<Select>();
    InnerSum inner;
    inner.inside.push_back({choice->yes, {}, false});
    for (const Iterator& it : statement.domain)
      (it.reduction ? inner.summed : inner.kept).insert(it.name);
    Statement reduction = take_out(inner, statement, program, layouts);
    statement.value = eager ? Select::make(choice->condition, statement.value, choice->no)
                            : choose_lazily(choice->condition, statement.value, choice->no);
    return {reduction};
  });
}

}  // namespace tc::ir
