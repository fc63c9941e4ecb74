#include "poly/affine.h"

#include <algorithm>

#include "base/error.h"

namespace tc::poly {
namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::Call;
using ir::Expr;

struct Range {
  int64_t low, high;
};

/// Nothing where a bound does not fit 64 bits.
std::optional<int64_t> add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}
std::optional<int64_t> subtract(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}
std::optional<int64_t> multiply(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Affine expressions with the interval of their values, which decides whether C's truncating
/// division agrees with isl's floor.
struct Affine {
  std::string text;
  Range range;
  std::optional<int64_t> constant;
};

class ToText {
 public:
  ToText(const std::map<std::string, std::string>& names, const std::vector<ir::Iterator>& domain)
      : names_(names), domain_(domain) {}

  std::optional<Affine> convert(const Expr& e) const {
    if (auto value = as_const_int(e)) return literal(*value);
    if (const auto* v = e.as<Halide::Internal::Variable>()) return variable(v->name);
    if (const auto* op = e.as<Halide::Internal::Add>()) return sum(op->a, op->b, 1);
    if (const auto* op = e.as<Halide::Internal::Sub>()) return sum(op->a, op->b, -1);
    if (const auto* op = e.as<Halide::Internal::Mul>()) return product(op->a, op->b);
    if (const auto* op = e.as<Halide::Internal::Div>()) return quotient(op->a, op->b, true, false);
    if (const auto* op = e.as<Halide::Internal::Mod>()) return quotient(op->a, op->b, true, true);
    if (const auto* op = e.as<Halide::Internal::Cast>()) {
      // Widening an index is exact, and so is a cast back; anything else may wrap.
      if (!op->type.is_int() || !op->value.type().is_int()) return std::nullopt;
      auto value = convert(op->value);
      const bool fits = op->type.bits() >= op->value.type().bits() ||
                        (value && op->type.can_represent(value->range.low) &&
                         op->type.can_represent(value->range.high));
      return fits ? value : std::nullopt;
    }
    if (const auto* op = e.as<Call>()) {
      if (op->is_intrinsic(Call::div_round_to_zero))
        return quotient(op->args[0], op->args[1], false, false);
      if (op->is_intrinsic(Call::mod_round_to_zero))
        return quotient(op->args[0], op->args[1], false, true);
    }
    return std::nullopt;
  }

 private:
  static Affine literal(int64_t value) {
    // isl takes no parentheses around the factor of a product.
    return {std::to_string(value), {value, value}, value};
  }

  std::optional<Affine> variable(const std::string& name) const {
    auto found = names_.find(name);
    if (found == names_.end()) return std::nullopt;
    Range range{INT32_MIN, INT32_MAX};
    for (const ir::Iterator& it : domain_) {
      auto low = as_const_int(it.min), extent = as_const_int(it.extent);
      if (it.name == name && low && extent)
        range = {*low, *low + std::max<int64_t>(*extent, 1) - 1};
    }
    return Affine{found->second, range, std::nullopt};
  }

  std::optional<Affine> sum(const Expr& a, const Expr& b, int64_t sign) const {
    auto x = convert(a), y = convert(b);
    if (!x || !y) return std::nullopt;
    auto low = sign > 0 ? add(x->range.low, y->range.low) : subtract(x->range.low, y->range.high);
    auto high =
        sign > 0 ? add(x->range.high, y->range.high) : subtract(x->range.high, y->range.low);
    if (!low || !high) return std::nullopt;
    if (x->constant && y->constant) return literal(*low);
    return Affine{
        "(" + x->text + (sign > 0 ? " + " : " - ") + y->text + ")", {*low, *high}, std::nullopt};
  }

  std::optional<Affine> product(const Expr& a, const Expr& b) const {
    auto x = convert(a), y = convert(b);
    if (!x || !y) return std::nullopt;
    if (y->constant) std::swap(x, y);
    if (!x->constant) return std::nullopt;
    auto low = multiply(*x->constant, y->range.low), high = multiply(*x->constant, y->range.high);
    if (!low || !high) return std::nullopt;
    if (y->constant) return literal(*low);
    if (*low > *high) std::swap(low, high);
    return Affine{"(" + x->text + " * " + y->text + ")", {*low, *high}, std::nullopt};
  }

  std::optional<Affine> quotient(const Expr& a, const Expr& b, bool floors, bool remainder) const {
    auto x = convert(a), y = convert(b);
    if (!x || !y || !y->constant || *y->constant <= 0) return std::nullopt;
    if (!floors && x->range.low < 0) return std::nullopt;
    int64_t divisor = *y->constant;
    std::string by = std::to_string(divisor);
    if (remainder)
      return Affine{"(" + x->text + " mod " + by + ")", {0, divisor - 1}, std::nullopt};
    auto floor_div = [&](int64_t v) {
      return v >= 0 ? v / divisor : -((-v + divisor - 1) / divisor);
    };
    return Affine{"floor(" + x->text + "/" + by + ")",
                  {floor_div(x->range.low), floor_div(x->range.high)},
                  std::nullopt};
  }

  const std::map<std::string, std::string>& names_;
  const std::vector<ir::Iterator>& domain_;
};

template <class Node>
std::optional<std::string> compare(const Node* op, const char* symbol,
                                   const std::map<std::string, std::string>& names,
                                   const std::vector<ir::Iterator>& domain) {
  auto a = affine_text(op->a, names, domain), b = affine_text(op->b, names, domain);
  if (!a || !b) return std::nullopt;
  return "(" + *a + symbol + *b + ")";
}

}  // namespace

std::optional<std::string> affine_text(const Expr& expr,
                                       const std::map<std::string, std::string>& names,
                                       const std::vector<ir::Iterator>& domain) {
  if (!expr.type().is_int()) return std::nullopt;
  auto affine = ToText(names, domain).convert(expr);
  if (!affine) return std::nullopt;
  return affine->text;
}

std::optional<std::string> affine_condition(const Expr& e,
                                            const std::map<std::string, std::string>& names,
                                            const std::vector<ir::Iterator>& domain) {
  using namespace Halide::Internal;
  if (const auto* op = e.as<EQ>()) return compare(op, " = ", names, domain);
  if (const auto* op = e.as<NE>()) return compare(op, " != ", names, domain);
  if (const auto* op = e.as<LT>()) return compare(op, " < ", names, domain);
  if (const auto* op = e.as<LE>()) return compare(op, " <= ", names, domain);
  if (const auto* op = e.as<GT>()) return compare(op, " > ", names, domain);
  if (const auto* op = e.as<GE>()) return compare(op, " >= ", names, domain);
  auto join = [&](const Expr& a, const Expr& b, const char* symbol) -> std::optional<std::string> {
    auto x = affine_condition(a, names, domain), y = affine_condition(b, names, domain);
    if (!x || !y) return std::nullopt;
    return "(" + *x + symbol + *y + ")";
  };
  if (const auto* op = e.as<And>()) return join(op->a, op->b, " and ");
  if (const auto* op = e.as<Or>()) return join(op->a, op->b, " or ");
  if (const auto* op = e.as<Not>()) {
    auto x = affine_condition(op->a, names, domain);
    if (!x) return std::nullopt;
    return "(not " + *x + ")";
  }
  return std::nullopt;
}

Expr to_expr(const isl::ast_expr& expr, const std::map<std::string, Expr>& iterators) {
  if (expr.isa<isl::ast_expr_id>()) {
    std::string name = expr.as<isl::ast_expr_id>().id().name();
    auto found = iterators.find(name);
    TC_INTERNAL_CHECK(found != iterators.end(), "isl's AST uses an unknown name ", name);
    return found->second;
  }
  if (expr.isa<isl::ast_expr_int>()) {
    long value = isl_val_get_num_si(expr.as<isl::ast_expr_int>().val().get());
    TC_INTERNAL_CHECK(value >= INT32_MIN && value <= INT32_MAX, "a bound of ", value,
                      " does not fit 32 bits");
    return Expr(static_cast<int32_t>(value));
  }
  isl::ast_expr_op op = expr.as<isl::ast_expr_op>();
  auto arg = [&](int i) { return to_expr(op.arg(i), iterators); };
  auto fold = [&](auto combine) {
    Expr result = arg(0);
    for (unsigned i = 1; i < op.n_arg(); ++i) result = combine(result, arg(i));
    return result;
  };
  switch (isl_ast_expr_get_op_type(expr.get())) {
    case isl_ast_op_and:
    case isl_ast_op_and_then: return arg(0) && arg(1);
    case isl_ast_op_or:
    case isl_ast_op_or_else: return arg(0) || arg(1);
    case isl_ast_op_max: return fold([](Expr a, Expr b) { return Halide::max(a, b); });
    case isl_ast_op_min: return fold([](Expr a, Expr b) { return Halide::min(a, b); });
    case isl_ast_op_minus: return -arg(0);
    case isl_ast_op_add: return arg(0) + arg(1);
    case isl_ast_op_sub: return arg(0) - arg(1);
    case isl_ast_op_mul: return arg(0) * arg(1);
    // Halide's integer division and remainder round down for positive divisors, which is what isl
    // means by fdiv; for the exact and the non-negative forms all roundings agree.
    case isl_ast_op_div:
    case isl_ast_op_fdiv_q:
    case isl_ast_op_pdiv_q: return arg(0) / arg(1);
    case isl_ast_op_pdiv_r:
    case isl_ast_op_zdiv_r: return arg(0) % arg(1);
    case isl_ast_op_cond:
    case isl_ast_op_select: return Halide::select(arg(0), arg(1), arg(2));
    case isl_ast_op_eq: return arg(0) == arg(1);
    case isl_ast_op_le: return arg(0) <= arg(1);
    case isl_ast_op_lt: return arg(0) < arg(1);
    case isl_ast_op_ge: return arg(0) >= arg(1);
    case isl_ast_op_gt: return arg(0) > arg(1);
    default: break;
  }
  TC_INTERNAL_CHECK(
      false, "isl's AST holds an operation that no schedule of ours makes: ", expr.to_C_str());
  return Expr();
}

}  // namespace tc::poly
