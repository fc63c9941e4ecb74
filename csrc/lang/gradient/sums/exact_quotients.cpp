#include "lang/gradient/sums/exact_quotients.h"

#include <algorithm>
#include <optional>

#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// dividend % divisor == 0
struct Exact {
  ExpressionPtr dividend;
  int64_t divisor = 1;
};

std::optional<Exact> find_exact(const Expression& guard) {
  if (!is_binary(guard, Operator::Equal) || !is_constant(*guard.operands[1], 0))
    return std::nullopt;
  const Expression& remainder = *guard.operands[0];
  if (!is_binary(remainder, Operator::Remainder)) return std::nullopt;
  auto divisor = constant_value(*remainder.operands[1]);
  if (!divisor || *divisor < 2) return std::nullopt;
  return Exact{remainder.operands[0], *divisor};
}

/// What a comparison says of q where it says nothing of other indices: a bound of it.
struct Bound {
  std::optional<Expr> first, last;
};

Bound find_bound(const Expression& e, const std::string& q, const std::vector<std::string>& indices,
                 const ir::Program& signature) {
  if (!is_ordering(e)) return {};
  // left <= right
  const bool rises = e.op == Operator::Less || e.op == Operator::LessEqual;
  const bool strict = e.op == Operator::Less || e.op == Operator::Greater;
  ExpressionPtr left = e.operands[rises ? 0 : 1], right = e.operands[rises ? 1 : 0];
  if (strict) left = binary(Operator::Add, left, integer(1));
  auto form = split_affine(binary(Operator::Subtract, right, left), q);
  if (!form || form->coefficient == 0) return {};
  Expr rest = to_halide(*form->rest);
  if (!rest.defined()) return {};
  rest = simplify_size(rest, signature);
  for (const std::string& index : indices)
    if (expr_uses_var(rest, index)) return {};
  // 0 <= coefficient * q + rest
  const auto k = static_cast<int>(std::abs(form->coefficient));
  Bound bound;
  if (form->coefficient > 0)
    bound.first = simplify_size((k - 1 - rest) / k, signature);
  else
    bound.last = simplify_size(rest / k, signature);
  return bound;
}

/// A product with a choice between a factor and nothing as one without, under a guard more.
ExpressionPtr without_choices(const ExpressionPtr& e, std::vector<ExpressionPtr>* guards) {
  if (e->kind == ExpressionKind::Ternary) {
    const std::optional<Constant>& elsewhere = e->operands[2]->constant;
    if (!elsewhere || elsewhere->as_double() != 0) return e;
    guards->push_back(e->operands[0]);
    return without_choices(e->operands[1], guards);
  }
  if (!is_binary(*e, Operator::Multiply)) return e;
  ExpressionPtr a = without_choices(e->operands[0], guards);
  ExpressionPtr b = without_choices(e->operands[1], guards);
  if (a == e->operands[0] && b == e->operands[1]) return e;
  ExpressionPtr product = binary(Operator::Multiply, a, b);
  product->type = e->type;
  return product;
}

bool replace_one(Contribution* c, const std::string& index, const ir::Program& signature,
                 const FreshNames& names) {
  const std::vector<ExpressionPtr> guards = terms_of(c->guards);
  for (const ExpressionPtr& guard : guards) {
    std::optional<Exact> exact = find_exact(*guard);
    if (!exact) continue;
    auto form = split_affine(exact->dividend, index);
    if (!form || form->coefficient != 1) continue;
    const ExpressionPtr q = name(names.index(index + "_quotient"));
    // dividend = index + rest = divisor * q
    const ExpressionPtr whole = binary(
        Operator::Subtract, binary(Operator::Multiply, integer(exact->divisor), q), form->rest);
    // An expression with q for the exact quotient, and `whole` where the index itself is left.
    const auto replaced = [&](const ExpressionPtr& e) {
      return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
        if (is_binary(node, Operator::Divide) &&
            constant_value(*node.operands[1]) == exact->divisor &&
            equal(*node.operands[0], *exact->dividend))
          return q;
        return node.kind == ExpressionKind::Name && node.name == index ? whole : nullptr;
      });
    };
    std::vector<std::string> indices = c->indices;
    indices.push_back(q->name);
    std::optional<Expr> first, last;
    std::vector<ExpressionPtr> left;
    for (const ExpressionPtr& other : guards) {
      if (other == guard) continue;
      ExpressionPtr moved = replaced(other);
      const Bound bound = find_bound(*moved, q->name, indices, signature);
      if (bound.first && !first)
        first = bound.first;
      else if (bound.last && !last)
        last = bound.last;
      else
        left.push_back(moved);
    }
    if (!first || !last) continue;
    // The index itself has to stay in its range.
    const Range range = c->ranges.at(index);
    Expr lowest = *first * static_cast<int>(exact->divisor);
    Expr highest = *last * static_cast<int>(exact->divisor);
    ExpressionPtr rest = form->rest;
    for (const std::string& other : c->indices) {
      auto part = split_affine(rest, other);
      if (!part) return false;
      const auto k = static_cast<int>(part->coefficient);
      const Range& of = c->ranges.at(other);
      lowest = lowest - (k > 0 ? of.last : of.first) * k;
      highest = highest - (k > 0 ? of.first : of.last) * k;
      rest = part->rest;
    }
    Expr constant = to_halide(*rest);
    if (!constant.defined()) continue;
    auto certain = [&](const Expr& difference) {
      return is_const_one(simplify(simplify_size(difference, signature) >= 0));
    };
    if (!certain(lowest - constant - range.first) || !certain(range.last - (highest - constant)))
      continue;
    c->guards = left;
    c->weight = replaced(c->weight);
    for (auto* list : {&c->subscripts, &c->source_places})
      for (ExpressionPtr& e : *list) e = replaced(e);
    std::replace(c->indices.begin(), c->indices.end(), index, q->name);
    c->left.erase(std::remove(c->left.begin(), c->left.end(), index), c->left.end());
    c->ranges.erase(index);
    c->ranges[q->name] = {*first, *last};
    return true;
  }
  return false;
}

}  // namespace

bool sum_over_quotients(Contribution* contribution, const std::vector<std::string>& remaining,
                        const ir::Program& signature, const FreshNames& names) {
  bool any = false;
  contribution->weight = without_choices(contribution->weight, &contribution->guards);
  for (const std::string& index : remaining)
    any = replace_one(contribution, index, signature, names) || any;
  return any;
}

}  // namespace tc::lang
