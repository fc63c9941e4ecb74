#include "lang/syntax/expressions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/text_stream.h"
#include "ir/expressions/reads.h"
#include "lang/sema/types.h"

namespace tc::lang {
namespace {

ExpressionPtr make(ExpressionKind kind, std::vector<ExpressionPtr> operands) {
  auto node = std::make_shared<Expression>();
  node->kind = kind;
  node->operands = std::move(operands);
  return node;
}

ExpressionPtr make_operator(ExpressionKind kind, Operator op, std::vector<ExpressionPtr> operands) {
  ExpressionPtr node = make(kind, std::move(operands));
  node->op = op;
  return node;
}

bool is_int32(int64_t value) { return static_cast<int32_t>(value) == value; }

/// Nothing where an int32 would be none any more: a literal beyond it fits no index.
std::optional<int64_t> fold(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = true;
  switch (op) {
    case Operator::Add: overflows = __builtin_add_overflow(a, b, &result); break;
    case Operator::Subtract: overflows = __builtin_sub_overflow(a, b, &result); break;
    case Operator::Multiply: overflows = __builtin_mul_overflow(a, b, &result); break;
    default: break;
  }
  if (overflows || (is_int32(a) && is_int32(b) && !is_int32(result))) return std::nullopt;
  return result;
}

/// -e, as long as e by itself is a literal that fits where its negation does.
bool can_lose_its_sign(const Expression& e) {
  if (!is_negation(e)) return false;
  std::optional<int64_t> value = constant_value(*e.operands[0]);
  return !value || is_int32(*value) || !is_int32(-*value);
}

/// Halide rounds down by a positive divisor, C towards zero.
ExpressionPtr divide_rounding_down(const ir::Expr& a, const ir::Expr& b) {
  ExpressionPtr x = from_halide(a), y = from_halide(b);
  if (never_negative(a)) return binary(Operator::Divide, x, y);
  ExpressionPtr lowered = binary(Operator::Subtract, x, binary(Operator::Subtract, y, integer(1)));
  ExpressionPtr positive = binary(Operator::GreaterEqual, x, integer(0));
  return binary(Operator::Divide, choose(positive, x, lowered), y);
}

/// What is left of an operand, in the type in which the operator computes: u(c) of i + u(c) - 1
/// does not wrap around as a byte.
ExpressionPtr converted(const ExpressionPtr& rest, const Expression& operand, const Type& type) {
  const bool narrow = operand.type.is_int_or_uint() && operand.type.bits() < type.bits();
  return narrow && !constant_value(*rest) ? cast(type, rest) : rest;
}

}  // namespace

ExpressionPtr integer(int64_t value) {
  if (value == INT64_MIN)  // whose magnitude is no number of 64 bits
    return make_operator(ExpressionKind::Binary, Operator::Subtract,
                         {integer(value + 1), integer(1)});
  if (value < 0) return make_operator(ExpressionKind::Unary, Operator::Negate, {integer(-value)});
  ExpressionPtr node = make(ExpressionKind::Number, {});
  node->name = std::to_string(value);
  node->constant = Constant{false, value, 0};
  return node;
}

ExpressionPtr real(double value) {
  if (std::signbit(value))
    return make_operator(ExpressionKind::Unary, Operator::Negate, {real(-value)});
  ExpressionPtr node = make(ExpressionKind::Number, {});
  char text[40];
  const InCLocale numbers;
  // As short as the value allows.
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  node->name = text;
  if (node->name.find_first_of(".e") == std::string::npos) node->name += ".0";
  node->constant = Constant{true, 0, value};
  return node;
}

ExpressionPtr name(const std::string& name) {
  ExpressionPtr node = make(ExpressionKind::Name, {});
  node->name = name;
  return node;
}

ExpressionPtr access(const std::string& name, std::vector<ExpressionPtr> operands) {
  if (operands.empty()) return lang::name(name);
  ExpressionPtr node = make(ExpressionKind::Apply, std::move(operands));
  node->name = name;
  return node;
}

ExpressionPtr read(const std::string& tensor, std::vector<ExpressionPtr> places, Type type) {
  ExpressionPtr node = access(tensor, std::move(places));
  node->binding = Binding::Tensor;
  node->type = type;
  return node;
}

ExpressionPtr cast(Type type, const ExpressionPtr& operand) {
  ExpressionPtr node = make(ExpressionKind::Cast, {operand});
  node->name = type_name(type);
  node->cast_type = type;
  return node;
}

ExpressionPtr binary(Operator op, const ExpressionPtr& a, const ExpressionPtr& b) {
  std::optional<int64_t> x = constant_value(*a), y = constant_value(*b);
  if (x && y) {
    if (std::optional<int64_t> value = fold(op, *x, *y)) return integer(*value);
  }
  if (op == Operator::Add) {
    if (x == 0) return b;
    if (y == 0) return a;
    if (can_lose_its_sign(*b)) return binary(Operator::Subtract, a, b->operands[0]);
  }
  if (op == Operator::Subtract) {
    if (y == 0) return a;
    if (x == 0) return negate(b);
    if (can_lose_its_sign(*b)) return binary(Operator::Add, a, b->operands[0]);
  }
  if (op == Operator::Multiply) {
    if (x == 1) return b;
    if (y == 1) return a;
  }
  if (op == Operator::Divide && y == 1) return a;
  return make_operator(ExpressionKind::Binary, op, {a, b});
}

ExpressionPtr negate(const ExpressionPtr& operand) {
  if (can_lose_its_sign(*operand)) return operand->operands[0];
  return make_operator(ExpressionKind::Unary, Operator::Negate, {operand});
}

ExpressionPtr logical_not(const ExpressionPtr& operand) {
  return make_operator(ExpressionKind::Unary, Operator::Not, {operand});
}

ExpressionPtr choose(const ExpressionPtr& condition, const ExpressionPtr& yes,
                     const ExpressionPtr& no) {
  return make(ExpressionKind::Ternary, {condition, yes, no});
}

ExpressionPtr all_of(const std::vector<ExpressionPtr>& conditions) {
  ExpressionPtr result;
  for (const ExpressionPtr& condition : conditions)
    result = result ? binary(Operator::And, result, condition) : condition;
  return result;
}

std::vector<ExpressionPtr> terms_of(const std::vector<ExpressionPtr>& conditions) {
  std::vector<ExpressionPtr> terms;
  for (const ExpressionPtr& condition : conditions) {
    if (is_binary(*condition, Operator::And)) {
      for (const ExpressionPtr& term : terms_of(condition->operands)) terms.push_back(term);
    } else {
      terms.push_back(condition);
    }
  }
  return terms;
}

bool never_negative(const ir::Expr& e) {
  using namespace Halide::Internal;
  Scope<Interval> sizes;
  for (const std::string& name : ir::variables_of(e))
    sizes.push(name, Interval(ir::Expr(0), Interval::pos_inf()));
  return is_const_one(simplify(e >= 0, true, sizes));
}

ExpressionPtr from_halide(const ir::Expr& e) {
  using namespace Halide::Internal;
  auto both = [](Operator op, const auto* node) {
    return binary(op, from_halide(node->a), from_halide(node->b));
  };
  if (auto value = as_const_int(e)) return integer(*value);
  if (const auto* op = e.as<Variable>()) return name(op->name);
  if (const auto* op = e.as<Add>()) return both(Operator::Add, op);
  if (const auto* op = e.as<Sub>()) return both(Operator::Subtract, op);
  if (const auto* op = e.as<Mul>()) return both(Operator::Multiply, op);
  if (const auto* op = e.as<Div>()) return divide_rounding_down(op->a, op->b);
  if (const auto* op = e.as<Mod>()) {
    if (never_negative(op->a)) return both(Operator::Remainder, op);
    ExpressionPtr quotient = divide_rounding_down(op->a, op->b);
    return binary(Operator::Subtract, from_halide(op->a),
                  binary(Operator::Multiply, quotient, from_halide(op->b)));
  }
  if (const auto* op = e.as<Min>()) return both(Operator::Min, op);
  if (const auto* op = e.as<Max>()) return both(Operator::Max, op);
  if (const auto* op = e.as<LT>()) return both(Operator::Less, op);
  if (const auto* op = e.as<LE>()) return both(Operator::LessEqual, op);
  if (const auto* op = e.as<EQ>()) return both(Operator::Equal, op);
  if (const auto* op = e.as<NE>()) return both(Operator::NotEqual, op);
  if (const auto* op = e.as<And>()) return both(Operator::And, op);
  if (const auto* op = e.as<Or>()) return both(Operator::Or, op);
  if (const auto* op = e.as<Select>()) {
    return choose(from_halide(op->condition), from_halide(op->true_value),
                  from_halide(op->false_value));
  }
  if (const auto* op = e.as<Call>()) {
    bool quotient = op->is_intrinsic(Call::div_round_to_zero);
    if (quotient || op->is_intrinsic(Call::mod_round_to_zero)) {
      return binary(quotient ? Operator::Divide : Operator::Remainder, from_halide(op->args[0]),
                    from_halide(op->args[1]));
    }
  }
  TC_INTERNAL_CHECK(false, "a size has no text: ", e);
  return nullptr;
}

ir::Expr to_halide(const Expression& e) {
  if (auto value = constant_value(e)) return Halide::Internal::make_const(Halide::Int(32), *value);
  if (e.kind == ExpressionKind::Name) return ir::make_variable(e.name);
  if (is_negation(e)) {
    ir::Expr a = to_halide(*e.operands[0]);
    return a.defined() ? -a : a;
  }
  if (e.kind != ExpressionKind::Binary) return ir::Expr();
  ir::Expr a = to_halide(*e.operands[0]), b = to_halide(*e.operands[1]);
  if (!a.defined() || !b.defined()) return ir::Expr();
  switch (e.op) {
    case Operator::Add: return a + b;
    case Operator::Subtract: return a - b;
    case Operator::Multiply: return a * b;
    case Operator::Divide: return never_negative(a) ? a / b : ir::c_div(a, b);
    case Operator::Remainder: return never_negative(a) ? a % b : ir::c_mod(a, b);
    case Operator::Min: return Halide::min(a, b);
    case Operator::Max: return Halide::max(a, b);
    default: return ir::Expr();
  }
}

ir::Expr not_negative(const Expression& condition) {
  if (condition.kind != ExpressionKind::Binary) return ir::Expr();
  const ir::Expr a = to_halide(*condition.operands[0]), b = to_halide(*condition.operands[1]);
  if (!a.defined() || !b.defined()) return ir::Expr();
  switch (condition.op) {
    case Operator::LessEqual: return b - a;
    case Operator::GreaterEqual: return a - b;
    case Operator::Less: return b - a - 1;
    case Operator::Greater: return a - b - 1;
    default: return ir::Expr();
  }
}

std::optional<int64_t> constant_value(const Expression& e) {
  if (e.kind == ExpressionKind::Number && e.constant && !e.constant->is_float)
    return e.constant->integer;
  if (is_negation(e)) {
    std::optional<int64_t> value = constant_value(*e.operands[0]);
    if (value) return -*value;
  }
  return std::nullopt;
}

bool is_constant(const Expression& e, int64_t value) { return constant_value(e) == value; }

bool is_binary(const Expression& e, Operator op) {
  return e.kind == ExpressionKind::Binary && e.op == op;
}

bool is_negation(const Expression& e) {
  return e.kind == ExpressionKind::Unary && e.op == Operator::Negate;
}

bool is_ordering(const Expression& e) {
  return e.kind == ExpressionKind::Binary && e.op >= Operator::Less &&
         e.op <= Operator::GreaterEqual;
}

bool is_comparison(const Expression& e) {
  return is_ordering(e) || is_binary(e, Operator::Equal) || is_binary(e, Operator::NotEqual);
}

bool is_access(const Expression& e) {
  return e.binding == Binding::Tensor && e.kind != ExpressionKind::Dimension;
}

bool equal(const Expression& a, const Expression& b) {
  if (a.kind != b.kind || a.name != b.name) return false;
  bool operates = a.kind == ExpressionKind::Unary || a.kind == ExpressionKind::Binary;
  if (operates && a.op != b.op) return false;
  if (a.kind == ExpressionKind::Dimension && a.dimension != b.dimension) return false;
  return equal(a.operands, b.operands);
}

bool equal(const std::vector<ExpressionPtr>& a, const std::vector<ExpressionPtr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return equal(*x, *y); });
}

bool mentions(const Expression& e, const std::string& name) {
  return any(e, [&](const Expression& node) {
    return node.kind == ExpressionKind::Name && node.name == name;
  });
}

bool mentions(const Expression& e, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return mentions(e, name); });
}

bool any(const Expression& e, const std::function<bool(const Expression&)>& holds) {
  return holds(e) ||
         std::any_of(e.operands.begin(), e.operands.end(),
                     [&](const ExpressionPtr& operand) { return any(*operand, holds); });
}

void walk(const Expression& e, const std::function<void(const Expression&)>& visit) {
  visit(e);
  for (const ExpressionPtr& operand : e.operands) walk(*operand, visit);
}

void walk(const TreeStatement& statement, const std::function<void(const Expression&)>& visit) {
  for_each_expression(statement, [&](const ExpressionPtr& e) { walk(*e, visit); });
}

ExpressionPtr rewrite(const ExpressionPtr& e,
                      const std::function<ExpressionPtr(const Expression&)>& replace) {
  if (ExpressionPtr other = replace(*e)) return other;
  auto copy = std::make_shared<Expression>(*e);
  bool changed = false;
  for (ExpressionPtr& operand : copy->operands) {
    ExpressionPtr other = rewrite(operand, replace);
    changed = changed || other != operand;
    operand = other;
  }
  return changed ? copy : e;
}

void rewrite(TreeStatement& statement,
             const std::function<ExpressionPtr(const Expression&)>& replace) {
  for_each_expression(statement, [&](ExpressionPtr& e) { e = rewrite(e, replace); });
}

ExpressionPtr substitute(const ExpressionPtr& e,
                         const std::map<std::string, ExpressionPtr>& names) {
  return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
    if (node.kind != ExpressionKind::Name) return nullptr;
    auto found = names.find(node.name);
    return found == names.end() ? nullptr : found->second;
  });
}

std::optional<AffineInIndex> split_affine(const ExpressionPtr& e, const std::string& index) {
  if (!mentions(*e, index)) return AffineInIndex{0, e};
  if (e->kind == ExpressionKind::Name) return AffineInIndex{1, integer(0)};
  if (is_negation(*e)) {
    auto inner = split_affine(e->operands[0], index);
    if (!inner) return std::nullopt;
    return AffineInIndex{-inner->coefficient, negate(inner->rest)};
  }
  if (e->kind != ExpressionKind::Binary) return std::nullopt;
  if (e->op == Operator::Add || e->op == Operator::Subtract) {
    auto a = split_affine(e->operands[0], index), b = split_affine(e->operands[1], index);
    if (!a || !b) return std::nullopt;
    int64_t sign = e->op == Operator::Add ? 1 : -1;
    return AffineInIndex{a->coefficient + sign * b->coefficient,
                         binary(e->op, converted(a->rest, *e->operands[0], e->type),
                                converted(b->rest, *e->operands[1], e->type))};
  }
  if (e->op == Operator::Multiply) {
    for (int side : {0, 1}) {
      std::optional<int64_t> factor = constant_value(*e->operands[side]);
      if (!factor) continue;
      auto inner = split_affine(e->operands[1 - side], index);
      if (!inner) return std::nullopt;
      inner->rest = converted(inner->rest, *e->operands[1 - side], e->type);
      return AffineInIndex{*factor * inner->coefficient,
                           is_constant(*inner->rest, 0)
                               ? inner->rest
                               : binary(Operator::Multiply, integer(*factor), inner->rest)};
    }
  }
  return std::nullopt;
}

}  // namespace tc::lang
