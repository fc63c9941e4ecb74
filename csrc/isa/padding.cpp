#include "isa/padding.h"

#include <map>

#include "ir/expressions/choices.h"
#include "ir/expressions/simplify.h"
#include "ir/loops.h"

namespace tc::ir {
namespace {

/// Whether the condition, over this iterator alone, holds on one side of some value only.
template <class Comparison>
bool is_half_line(const Expr& condition, const std::string& iterator) {
  const auto* comparison = condition.as<Comparison>();
  if (!comparison || comparison->a.type() != Halide::Int(32)) return false;
  auto a = step_along(comparison->a, iterator), b = step_along(comparison->b, iterator);
  return a && b && *a != *b;
}

bool is_half_line(const Expr& condition, const std::string& iterator) {
  return is_half_line<LT>(condition, iterator) || is_half_line<LE>(condition, iterator) ||
         is_half_line<GT>(condition, iterator) || is_half_line<GE>(condition, iterator);
}

bool holds(const std::vector<Expr>& terms, const std::string& iterator, int64_t value) {
  for (const Expr& term : terms)
    if (!is_const_one(simplify_index(substitute(iterator, Expr(static_cast<int>(value)), term))))
      return false;
  return true;
}

}  // namespace

std::optional<Padding> match_padding(const Program& program, const Statement& statement) {
  auto choice = find_choice(statement.value);
  if (!choice || statement.reduction != Reduction::None || statement.guard.defined() ||
      !is_const_zero(choice->no))
    return std::nullopt;
  const auto* inside = choice->yes.as<Call>();
  std::string name = inside ? read_name(inside) : "";
  const size_t rank = statement.subscripts.size();
  if (!program.tensors.count(name) || inside->args.size() != rank ||
      statement.domain.size() != rank)
    return std::nullopt;

  std::map<std::string, std::vector<Expr>> terms;
  for (const Expr& term : list_conditions(choice->condition)) {
    const Iterator* found = nullptr;
    for (const Iterator& it : statement.domain) {
      if (!expr_uses_var(term, it.name)) continue;
      if (found || !is_half_line(term, it.name)) return std::nullopt;
      found = &it;
    }
    if (!found) return std::nullopt;
    terms[found->name].push_back(term);
  }

  Padding padding;
  padding.tensor = name;
  for (size_t d = 0; d < rank; ++d) {
    const Iterator& it = statement.domain[d];
    Expr variable = make_variable(it.name);
    auto shift = as_const_int(simplify(variable - inside->args[d]));
    if (!is_const_zero(it.min) || !is_const_zero(simplify(statement.subscripts[d] - variable)) ||
        !shift)
      return std::nullopt;
    int64_t size = *as_const_int(program.tensor(name).sizes[d]);
    int64_t extent = *as_const_int(it.extent), before = *shift;
    if (before < 0) return std::nullopt;
    // The values for which all terms hold are consecutive, so their ends tell them.
    for (int64_t value :
         {int64_t{0}, before - 1, before, before + size - 1, before + size, extent - 1}) {
      if (value < 0 || value >= extent) continue;
      bool reads = value >= before && value < before + size;
      if (holds(terms[it.name], it.name, value) != reads) return std::nullopt;
    }
    padding.dimensions.push_back({before, size, extent});
  }
  return padding;
}

}  // namespace tc::ir
