#include "poly/ast_expr.h"

#include "base/error.h"

namespace tc::poly {
using ir::Expr;

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
