#include "lang/sema/expression_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/notes.h"
#include "lang/sema/builtins.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/parser.h"

namespace tc::lang {
namespace {

const Type kFloat = Halide::Float(32);
const Type kInt = Halide::Int(32);

bool is_integer(Type type) { return !type.is_float() && !type.is_bool(); }

/// int32 where it fits, else int64.
Type literal_type(const Constant& constant) {
  if (constant.is_float) return kFloat;
  return fits(constant.integer, kInt) ? kInt : Halide::Int(64);
}

[[noreturn]] void overflow(const Expression& e) {
  throw LanguageError(e.where,
                      "this constant does not fit 64 bits; write it with floating-point numbers");
}

/// Arithmetic on two literals, as C does it.
std::optional<Constant> fold(const Expression& e, const Constant& a, const Constant& b) {
  Constant result;
  if (a.is_float || b.is_float) {
    double x = a.as_double(), y = b.as_double();
    result.is_float = true;
    switch (e.op) {
      case Operator::Add: result.real = x + y; return result;
      case Operator::Subtract: result.real = x - y; return result;
      case Operator::Multiply: result.real = x * y; return result;
      case Operator::Divide: result.real = x / y; return result;
      case Operator::Remainder: result.real = std::fmod(x, y); return result;
      // NaN where one of them is.
      case Operator::Min: result.real = std::isnan(x) || x < y ? x : y; return result;
      case Operator::Max: result.real = std::isnan(x) || x > y ? x : y; return result;
      default: return std::nullopt;
    }
  }
  int64_t x = a.integer, y = b.integer;
  bool overflows = false;
  switch (e.op) {
    case Operator::Add: overflows = __builtin_add_overflow(x, y, &result.integer); break;
    case Operator::Subtract: overflows = __builtin_sub_overflow(x, y, &result.integer); break;
    case Operator::Multiply: overflows = __builtin_mul_overflow(x, y, &result.integer); break;
    case Operator::Divide:
    case Operator::Remainder:
      if (y == 0) throw LanguageError(e.where, "integer division by zero: the divisor is always 0");
      if (y == -1 && x == std::numeric_limits<int64_t>::min()) overflow(e);
      result.integer = e.op == Operator::Divide ? x / y : x % y;
      break;
    case Operator::Min: result.integer = std::min(x, y); break;
    case Operator::Max: result.integer = std::max(x, y); break;
    default: return std::nullopt;
  }
  if (overflows) overflow(e);
  return result;
}

/// What to do about a number that the type of the other operand does not hold.
std::string cast_the_other(int64_t number, Type type) {
  const Type wider = fits(number, kInt) && promote(type, kInt) == kInt ? kInt : Halide::Int(64);
  return concat("the type of what it is combined with; cast the other operand to ",
                type_name(wider), " first, as in ", type_name(wider), "(x)",
                type == kInt ? ". Subscripts and ranges stay within int32" : "");
}

/// The type that two operands of arithmetic meet in; literals take the other's type.
Type common_type(const Expression& a, const Expression& b) {
  if (a.adaptable == b.adaptable) return promote(a.type, b.type);
  const Expression& literal = a.adaptable ? a : b;
  const Expression& other = a.adaptable ? b : a;
  if (literal.type.is_float() && !other.type.is_float()) return literal.type;
  if (other.type.is_bool()) return literal.type;
  return other.type;
}

void set_unary(Expression* e) {
  Expression& operand = *e->operands[0];
  if (e->op == Operator::Not) {
    expect_bool(operand, "the operand of '!'", true);
    e->type = Halide::Bool();
    return;
  }
  e->type = operand.type.is_bool() ? kInt : operand.type;
  e->adaptable = operand.adaptable;
  if (operand.constant) {
    Constant constant = *operand.constant;
    constant.real = -constant.real;
    if (__builtin_sub_overflow(int64_t{0}, constant.integer, &constant.integer)) overflow(*e);
    e->constant = constant;
    e->type = literal_type(constant);
  }
}

void set_arithmetic(Expression* e) {
  Expression &a = *e->operands[0], &b = *e->operands[1];
  if (a.constant && b.constant) {
    e->constant = fold(*e, *a.constant, *b.constant);
    if (e->constant) {
      e->adaptable = true;
      e->type = literal_type(*e->constant);
      return;
    }
  }
  if (!b.type.is_float() && b.constant && b.constant->integer == 0 && !a.type.is_float() &&
      (e->op == Operator::Divide || e->op == Operator::Remainder)) {
    throw LanguageError(e->where, "integer division by zero: the divisor is always 0");
  }
  e->type = common_type(a, b);
  bool selects = e->op == Operator::Min || e->op == Operator::Max;
  if (e->type.is_bool() && !selects) e->type = kInt;
  e->adaptable = a.adaptable && b.adaptable;
  adapt(&a, e->type);
  adapt(&b, e->type);
}

void set_binary(Expression* e) {
  Expression &a = *e->operands[0], &b = *e->operands[1];
  if (is_comparison(*e)) {
    Type type = common_type(a, b);
    adapt(&a, type);
    adapt(&b, type);
  } else if (e->op == Operator::And || e->op == Operator::Or) {
    expect_bool(a, concat("an operand of '", spelling(e->op), "'"));
    expect_bool(b, concat("an operand of '", spelling(e->op), "'"));
  } else {
    return set_arithmetic(e);
  }
  e->type = Halide::Bool();
}

void set_ternary(Expression* e) {
  Expression &a = *e->operands[1], &b = *e->operands[2];
  expect_bool(*e->operands[0], "the condition of '?'");
  e->type = common_type(a, b);
  e->adaptable = a.adaptable && b.adaptable;
  adapt(&a, e->type);
  adapt(&b, e->type);
}

void set_builtin(Expression* e) {
  const Builtin* builtin = find_builtin(e->name);
  if (static_cast<size_t>(builtin->arity) != e->operands.size()) {
    throw LanguageError(e->where, e->name, " expected ", plural(builtin->arity, "argument"),
                        " but found ", e->operands.size());
  }
  // Literals follow the other arguments, integers become float.
  const Expression* strongest = nullptr;
  Type type = kFloat;
  const Expression* integer =
      builtin->integer_argument < 0 ? nullptr : e->operands[builtin->integer_argument].get();
  for (const ExpressionPtr& operand : e->operands) {
    if (operand->adaptable || operand.get() == integer) continue;
    type = strongest ? promote(type, operand->type) : operand->type;
    strongest = operand.get();
  }
  if (!strongest) {
    type = e->operands[integer == e->operands[0].get() ? 1 : 0]->type;
    for (const ExpressionPtr& operand : e->operands) {
      if (operand.get() != integer) type = promote(type, operand->type);
    }
  }
  bool keep = builtin->keeps_integers && is_integer(type);
  if (!type.is_float() && !keep) type = kFloat;
  for (const ExpressionPtr& operand : e->operands) {
    if (operand.get() != integer) adapt(operand.get(), type);
  }
  if (integer) {
    expect_integer(*integer,
                   concat("argument ", builtin->integer_argument + 1, " of ", builtin->name));
  }
  e->name = builtin->name;
  switch (builtin->result) {
    case BuiltinResult::Same: e->type = type; break;
    case BuiltinResult::Bool: e->type = Halide::Bool(); break;
    case BuiltinResult::Int32: e->type = kInt; break;
    case BuiltinResult::Int64: e->type = Halide::Int(64); break;
  }
  e->operand_type = type;
}

}  // namespace

void adapt(Expression* e, Type type, const std::string& unless_it_fits) {
  if (!e->adaptable || e->type == type) return;
  // (c ? 1 : 2) / 2 is a quotient of integers wherever it stands; its value is what is converted.
  bool computed = e->kind == ExpressionKind::Binary && !e->constant;
  if (computed && type.is_float() && !e->type.is_float()) return;
  if (e->constant && !e->constant->is_float && !fits(e->constant->integer, type)) {
    throw LanguageError(
        e->where, e->constant->integer, " does not fit ", type_name(type), ", ",
        unless_it_fits.empty() ? cast_the_other(e->constant->integer, type) : unless_it_fits);
  }
  e->type = type;
  // Of -128, a number of 8 bits, 128 is none.
  if (e->kind == ExpressionKind::Unary && !e->constant)
    adapt(e->operands[0].get(), type, unless_it_fits);
  if (computed) {
    for (const ExpressionPtr& operand : e->operands) adapt(operand.get(), type, unless_it_fits);
  }
  if (e->kind == ExpressionKind::Ternary) {
    adapt(e->operands[1].get(), type, unless_it_fits);
    adapt(e->operands[2].get(), type, unless_it_fits);
  }
  if (e->let) adapt(e->let.get(), type, unless_it_fits);
}

void expect_finite_literals(const Expression& e) {
  if (e.constant) {
    const double value = e.constant->as_double();
    if (!e.type.is_float() || !std::isfinite(value) || stays_finite(value, e.type)) return;
    throw LanguageError(e.where, value, " does not fit ", type_name(e.type),
                        "; compute in a wider type, as in double(x), or write 1.0 / 0.0 for "
                        "infinity");
  }
  if (e.let) expect_finite_literals(*e.let);
  for (const ExpressionPtr& operand : e.operands) {
    // A cast is as free to give infinity as any other arithmetic.
    if (e.kind != ExpressionKind::Cast || !operand->constant) expect_finite_literals(*operand);
  }
}

void set_type(Expression* e) {
  if (e->kind != ExpressionKind::Number) e->constant.reset();
  e->adaptable = false;
  switch (e->kind) {
    case ExpressionKind::Number:
      e->adaptable = true;
      e->type = literal_type(*e->constant);
      return;
    case ExpressionKind::Cast: {
      Expression& operand = *e->operands[0];
      e->type = e->cast_type;
      // double(0.1) is the double closest to 0.1, not the float, and so is each of two that are
      // chosen from. What is computed of such keeps its float in a narrower type.
      const bool widens = operand.type.is_float() && e->type.bits() > operand.type.bits();
      if (e->type.is_float() && operand.adaptable && (operand.constant || widens))
        adapt(&operand, e->type);
      return;
    }
    case ExpressionKind::Unary: return set_unary(e);
    case ExpressionKind::Binary: return set_binary(e);
    case ExpressionKind::Ternary: return set_ternary(e);
    case ExpressionKind::Apply: return set_builtin(e);
    case ExpressionKind::Name:
    case ExpressionKind::Dimension: return;
  }
}

void expect_bool(const Expression& e, const std::string& role, bool in_unary) {
  if (e.type.is_bool()) return;
  std::string text(e.where.str());
  if (e.kind == ExpressionKind::Ternary ||
      (e.kind == ExpressionKind::Binary && precedence(e.op) <= precedence(Operator::NotEqual)))
    text = "(" + text + ")";
  throw LanguageError(e.where, "expected boolean but found ", type_name(e.type), " as ", role,
                      "; write ", in_unary ? "(" : "", text, " != 0", in_unary ? ")" : "",
                      " if that is meant");
}

void expect_integer(const Expression& e, const std::string& role) {
  if (is_integer(e.type)) return;
  throw LanguageError(e.where, "expected integral type but found ", type_name(e.type), " as ", role,
                      "; write int32(", e.where.str(), ")",
                      e.type.is_bool() ? " for 0 or 1" : " to truncate it");
}

}  // namespace tc::lang
