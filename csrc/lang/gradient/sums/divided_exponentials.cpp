#include "lang/gradient/sums/divided_exponentials.h"

#include <algorithm>
#include <map>
#include <string>

#include "lang/lowering/ranges.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Names = std::map<std::string, ExpressionPtr>;

bool is_name(const ExpressionPtr& e) { return e->kind == ExpressionKind::Name && !is_access(*e); }

/// Exponentials, whose derivatives are multiples of themselves, or constants, as conditions say.
bool is_exponential(const Expression& e) {
  if (e.kind == ExpressionKind::Ternary)
    return is_exponential(*e.operands[1]) && is_exponential(*e.operands[2]);
  return e.constant || (e.kind == ExpressionKind::Apply && e.binding == Binding::Builtin &&
                        (e.name == "exp" || e.name == "exp2" || e.name == "exp10"));
}

/// What each of some plain and different places is called elsewhere.
std::optional<Names> match(const std::vector<ExpressionPtr>& places,
                           const std::vector<ExpressionPtr>& elsewhere) {
  if (places.size() != elsewhere.size()) return std::nullopt;
  Names names;
  for (size_t d = 0; d < places.size(); ++d)
    if (!is_name(places[d]) || !names.emplace(places[d]->name, elsewhere[d]).second)
      return std::nullopt;
  return names;
}

/// e * divisor, if e is a quotient of it, perhaps with a sign and factors.
ExpressionPtr times(const ExpressionPtr& e, const Expression& divisor) {
  if (is_negation(*e)) {
    ExpressionPtr inside = times(e->operands[0], divisor);
    return inside ? negate(inside) : nullptr;
  }
  if (is_binary(*e, Operator::Multiply)) {
    const ExpressionPtr &a = e->operands[0], &b = e->operands[1];
    if (ExpressionPtr inside = times(a, divisor)) return binary(Operator::Multiply, inside, b);
    ExpressionPtr inside = times(b, divisor);
    return inside ? binary(Operator::Multiply, a, inside) : nullptr;
  }
  const bool divides = is_binary(*e, Operator::Divide) && equal(*e->operands[1], divisor);
  return divides ? e->operands[0] : nullptr;
}

/// The same for a read of what the derivative computed as such a quotient.
ExpressionPtr times(const ExpressionPtr& e, const Expression& divisor,
                    const std::vector<GradientStatement>& statements) {
  if (!is_access(*e)) return times(e, divisor);
  const GradientStatement* made = nullptr;
  for (const GradientStatement& statement : statements) {
    if (statement.target != e->name) continue;
    if (made || statement.reduction != ir::Reduction::None) return nullptr;
    made = &statement;
  }
  if (!made) return nullptr;
  const std::optional<Names> names = match(made->places, e->operands);
  return names ? times(substitute(made->value, *names), divisor) : nullptr;
}

}  // namespace

bool is_quotient(const Step& step) {
  return is_binary(*step.value, Operator::Divide) && step.type.is_float() &&
         step.value->type == step.type;
}

std::optional<DividedExponential> divided_exponential(
    const Step& step, const Step& quotient, const std::vector<Contribution>& contributions,
    const std::vector<GradientStatement>& statements, const ir::Program& signature) {
  // Sums of half may overflow where those of quotients do not.
  if (!is_exponential(*step.value) || step.reduction != ir::Reduction::None || !step.covers ||
      step.value->type != step.type || step.type == Halide::Float(16))
    return std::nullopt;
  if (!is_quotient(quotient) || quotient.reduction != ir::Reduction::None || !quotient.covers ||
      quotient.type != step.type || quotient.scatters())
    return std::nullopt;
  const ExpressionPtr& exponential = quotient.value->operands[0];
  const ExpressionPtr& divisor = quotient.value->operands[1];
  if (!is_access(*exponential) || exponential->name != step.target ||
      quotient.places.size() != step.places.size())
    return std::nullopt;
  // Every element of e is divided, in a place of its own.
  const std::optional<Names> names = match(exponential->operands, step.places);
  if (!names) return std::nullopt;
  std::vector<ExpressionPtr> places;
  for (size_t d = 0; d < quotient.places.size(); ++d) {
    const auto name = names->find(quotient.places[d]->name);
    if (!is_name(quotient.places[d]) || name == names->end()) return std::nullopt;
    const auto dimension = std::find(step.places.begin(), step.places.end(), name->second);
    const Range& shape = step.shape[dimension - step.places.begin()];
    if (!always_equal(shape, quotient.shape[d], signature)) return std::nullopt;
    places.push_back(name->second);
  }
  DividedExponential found;
  found.result = read(quotient.target, places, quotient.type);
  for (Contribution contribution : contributions) {
    const std::optional<Names> there = match(exponential->operands, contribution.subscripts);
    if (!there) return std::nullopt;
    contribution.weight = times(contribution.weight, *substitute(divisor, *there), statements);
    if (!contribution.weight) return std::nullopt;
    contribution.copies = false;
    found.contributions.push_back(std::move(contribution));
  }
  return found;
}

}  // namespace tc::lang
