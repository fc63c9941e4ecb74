#include "rewrite/domains/shrink_ranges.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text_stream.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "machine/limits.h"
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

/// What a reduction adds up under a condition, where every other term is the identity.
std::optional<Choice> find_terms(const Statement& statement) {
  if (statement.reduction == Reduction::None || is_scatter(statement)) return std::nullopt;
  const std::optional<Choice> choice = find_choice(statement.value);
  if (!choice || !equal(choice->no, identity(statement.reduction, statement.value.type())))
    return std::nullopt;
  return choice;
}

/// Leaves of the condition what is still to be checked.
void set_terms(Statement& statement, const Choice& choice, const std::vector<Expr>& conditions) {
  Expr left;
  for (const Expr& condition : conditions)
    left = !left.defined()       ? condition
           : has_data(condition) ? choose_lazily(left, condition, const_false())
                                 : left && condition;
  if (!left.defined())
    statement.value = choice.yes;
  else if (statement.value.as<Select>())
    statement.value = Select::make(left, choice.yes, choice.no);
  else
    statement.value = choose_lazily(left, choice.yes, choice.no);
}

void shrink_reductions(Statement& statement) {
  const std::optional<Choice> choice = find_terms(statement);
  if (!choice) return;
  std::vector<Expr> left;
  const std::vector<Expr> conditions = list_conditions(choice->condition);
  for (const Expr& condition : conditions) {
    Iterator* it = only_index(statement, condition);
    if (!it || !shrink(*it, condition)) left.push_back(condition);
  }
  if (left.size() < conditions.size()) set_terms(statement, *choice, left);
}

/// The box of results where a condition on indices of results alone holds: those indices, with
/// their ranges in it. Nothing where it is no box, or empty.
std::vector<Iterator> find_box(const Statement& statement, const Expr& condition) {
  std::vector<Iterator> box;
  if (has_data(condition)) return {};
  for (const Iterator& it : statement.domain) {
    if (!expr_uses_var(condition, it.name)) continue;
    if (it.reduction || extent_of(it) == 0) return {};
    box.push_back(it);
  }
  if (box.empty()) return {};
  poly::Context context;
  const std::optional<isl::set> holds = poly::IndexSets(context.get(), box).where(condition);
  if (!holds || holds->is_empty()) return {};
  for (size_t i = 0; i < box.size(); ++i) {
    const auto dimension = static_cast<int>(i);
    const int64_t first = poly::to_integer(holds->dim_min_val(dimension));
    const int64_t last = poly::to_integer(holds->dim_max_val(dimension));
    box[i].min = static_cast<int>(first);
    box[i].extent = static_cast<int>(last - first + 1);
  }
  if (!poly::IndexSets(context.get(), box).points().is_equal(*holds)) return {};
  context.require_memory();
  return box;
}

bool uses_any(const Expr& e, const std::vector<Iterator>& indices) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Iterator& it) { return expr_uses_var(e, it.name); });
}

/// Sets results that no term counts for, along one index.
Statement set_without_terms(const Statement& statement, size_t index, int64_t first, int64_t end) {
  Statement part = statement;
  part.domain[index].min = static_cast<int>(first);
  part.domain[index].extent = static_cast<int>(end - first);
  part.value = identity(statement.reduction, statement.value.type());
  assign(part);
  part.domain = kept_indices(part);
  part.meaning = concat(statement.tensor, " where no term counts");
  return part;
}

int64_t begin_of(const Iterator& it) { return *Halide::Internal::as_const_int(it.min); }

/// The statement where terms count, behind those that set what lies around; nothing where there is
/// no such box.
std::vector<Statement> shrink_results(const Statement& statement) {
  const std::optional<Choice> choice = find_terms(statement);
  if (!choice || statement.guard.defined() || reads(statement, statement.tensor))
    return {statement};
  std::vector<Statement> made;
  std::vector<Expr> left;
  Statement inner = statement;
  const std::vector<Expr> conditions = list_conditions(choice->condition);
  // What ties terms to results makes scans, which are found from the first result on.
  if (std::any_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
        return !has_data(condition) && uses_any(condition, reduced_indices(statement));
      }))
    return {statement};
  for (const Expr& condition : conditions) {
    const std::vector<Iterator> box = find_box(inner, condition);
    if (box.empty()) left.push_back(condition);
    for (const Iterator& in : box) {
      const auto it = std::find_if(inner.domain.begin(), inner.domain.end(),
                                   [&](const Iterator& each) { return each.name == in.name; });
      const auto index = static_cast<size_t>(it - inner.domain.begin());
      const int64_t first = begin_of(*it), end = first + extent_of(*it);
      const int64_t from = begin_of(in), to = from + extent_of(in);
      if (statement.initializes && first < from)
        made.push_back(set_without_terms(inner, index, first, from));
      if (statement.initializes && to < end)
        made.push_back(set_without_terms(inner, index, to, end));
      inner.domain[index] = in;
    }
  }
  if (left.size() == conditions.size() || made.size() > machine::kBorders) return {statement};
  set_terms(inner, *choice, left);
  made.push_back(std::move(inner));
  return made;
}

/// Whether a statement is the only one about its tensor: others may find more in one that is whole,
/// or fuse with it.
bool is_alone(const Program& program, const Statement& statement) {
  return std::all_of(program.statements.begin(), program.statements.end(), [&](const auto& each) {
    return &each == &statement ||
           (each.tensor != statement.tensor && !reads(each, statement.tensor));
  });
}

}  // namespace

void shrink_ranges(Program& program) {
  for (Statement& statement : program.statements) shrink_reductions(statement);
  replace_statements(program, [&](const Statement& statement) {
    return is_alone(program, statement) ? shrink_results(statement)
                                        : std::vector<Statement>{statement};
  });
}

}  // namespace tc::rewrite
