#include "lang/gradient/sums/quotient_remainders.h"

#include <algorithm>
#include <optional>

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

/// What is divided, by a number or into it.
struct Quotient {
  ExpressionPtr dividend;
  int64_t divisor = 1;
};

bool is_quotient(const Expression& e) {
  return is_binary(e, Operator::Divide) || is_binary(e, Operator::Remainder);
}

/// Whether a node is the quotient, or its remainder.
bool divides(const Expression& e, const Quotient& quotient) {
  return is_quotient(e) && constant_value(*e.operands[1]) == quotient.divisor &&
         equal(*e.operands[0], *quotient.dividend);
}

/// Whether a guard says that there is no remainder.
bool is_exact(const Quotient& quotient, const Contribution& c) {
  const std::vector<ExpressionPtr> guards = terms_of(c.guards);
  return std::any_of(guards.begin(), guards.end(), [&](const ExpressionPtr& guard) {
    return is_binary(*guard, Operator::Equal) && constant_value(*guard->operands[1]) == 0 &&
           is_binary(*guard->operands[0], Operator::Remainder) &&
           divides(*guard->operands[0], quotient);
  });
}

/// The first quotient of a sum of two indices and more, or of one and something else.
std::optional<Quotient> find_quotient(const Contribution& c) {
  std::optional<Quotient> found;
  for (const ExpressionPtr& subscript : c.subscripts)
    walk(*subscript, [&](const Expression& e) {
      if (found || !is_binary(e, Operator::Divide)) return;
      const auto divisor = constant_value(*e.operands[1]);
      const ExpressionPtr& dividend = e.operands[0];
      const bool is_sum =
          is_binary(*dividend, Operator::Add) || is_binary(*dividend, Operator::Subtract);
      if (!divisor || *divisor < 2 || !is_sum || !mentions(*dividend, c.left)) return;
      if (const Quotient quotient{dividend, *divisor}; !is_exact(quotient, c)) found = quotient;
    });
  return found;
}

/// The least value of a sum of multiples of indices and what sizes say.
std::optional<Expr> find_least(ExpressionPtr sum, const Contribution& c) {
  Expr least = 0;
  for (const std::string& index : c.indices) {
    if (!mentions(*sum, index)) continue;
    const auto part = split_affine(sum, index);
    if (!part) return std::nullopt;
    const Range& of = c.ranges.at(index);
    least =
        least + (part->coefficient > 0 ? of.first : of.last) * static_cast<int>(part->coefficient);
    sum = part->rest;
  }
  const Expr constant = to_halide(*sum);
  return constant.defined() ? std::optional(least + constant) : std::nullopt;
}

bool says_not_negative(const Expression& guard, const Expression& sum) {
  if (is_binary(guard, Operator::GreaterEqual))
    return equal(*guard.operands[0], sum) && constant_value(*guard.operands[1]) == 0;
  return is_binary(guard, Operator::LessEqual) && equal(*guard.operands[1], sum) &&
         constant_value(*guard.operands[0]) == 0;
}

bool is_never_negative(const ExpressionPtr& sum, const Contribution& c,
                       const ir::Program& signature) {
  const std::optional<Expr> least = find_least(sum, c);
  if (!least) return false;
  const std::vector<ExpressionPtr> guards = terms_of(c.guards);
  return never_negative(simplify_size(*least, signature)) ||
         std::any_of(guards.begin(), guards.end(),
                     [&](const ExpressionPtr& guard) { return says_not_negative(*guard, *sum); });
}

/// Whether another quotient has one of the indices of this one.
bool has_others(const Contribution& c, const Quotient& quotient) {
  std::vector<std::string> indices;
  for (const std::string& index : c.indices)
    if (mentions(*quotient.dividend, index)) indices.push_back(index);
  return std::any_of(c.subscripts.begin(), c.subscripts.end(), [&](const ExpressionPtr& subscript) {
    return any(*subscript, [&](const Expression& e) {
      return is_quotient(e) && !divides(e, quotient) && mentions(e, indices);
    });
  });
}

}  // namespace

bool name_remainders(Contribution* contribution, const ir::Program& signature,
                     const FreshNames& names) {
  FreshNames taken = names;  // indices may be called so in other statements
  bool any = false;
  while (const std::optional<Quotient> found = find_quotient(*contribution)) {
    if (has_others(*contribution, *found) ||
        !is_never_negative(found->dividend, *contribution, signature))
      return any;
    const std::string index = taken.fresh("rest");
    const ExpressionPtr rest = name(index), divisor = integer(found->divisor);
    const ExpressionPtr multiple = binary(Operator::Subtract, found->dividend, rest);
    const auto replaced = [&](const ExpressionPtr& e) {
      return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
        if (!divides(node, *found)) return nullptr;
        return node.op == Operator::Divide ? binary(Operator::Divide, multiple, divisor) : rest;
      });
    };
    for (auto* list :
         {&contribution->subscripts, &contribution->guards, &contribution->source_places})
      for (ExpressionPtr& e : *list) e = replaced(e);
    contribution->weight = replaced(contribution->weight);
    contribution->guards.push_back(
        binary(Operator::Equal, binary(Operator::Remainder, multiple, divisor), integer(0)));
    contribution->indices.push_back(index);
    contribution->ranges[index] = {0, static_cast<int>(found->divisor) - 1};
    any = true;
  }
  return any;
}

}  // namespace tc::lang
