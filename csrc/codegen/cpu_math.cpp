#include "codegen/cpu_math.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/program.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;
using ir::Type;

Expr strict(Call::IntrinsicOp op, const Expr& a, const Expr& b) {
  return Call::make(Halide::Bool(a.type().lanes()), op, {a, b}, Call::PureIntrinsic);
}

Expr is_number(const Expr& x) { return strict(Call::strict_eq, x, x); }
bool known_number(const Expr& x) { return is_const(x); }

/// max or min that returns a NaN operand, as PyTorch's do.
Expr propagate(bool maximum, const Expr& a, const Expr& b) {
  // An unordered comparison is false, which keeps a NaN in `a`; one in `b` needs a test of its own.
  Expr best = maximum ? select(strict(Call::strict_le, a, b), b, a)
                      : select(strict(Call::strict_le, b, a), b, a);
  return known_number(b) ? best : select(is_number(b), best, b);
}

/// C's fmax or fmin: a NaN operand is ignored.
Expr ignore(bool maximum, const Expr& a, const Expr& b) {
  Expr best = maximum ? select(strict(Call::strict_lt, b, a), a, b)
                      : select(strict(Call::strict_lt, a, b), a, b);
  // Unordered gives b, which is right for a NaN in `a`.
  return known_number(b) ? best : select(is_number(b), best, a);
}

Expr libm(const std::string& name, const std::vector<Expr>& arguments) {
  Type type = arguments[0].type();
  return Call::make(type, name + (type.bits() == 32 ? "f" : ""), arguments, Call::PureExtern);
}

Expr builtin(const std::string& name, const std::vector<Expr>& x) {
  using Unary = Expr (*)(Expr);
  // Halide's own agree with C's for every argument, NaN and infinities included, or are guarded.
  static const std::map<std::string, Unary> direct = {
      {"sqrt", Halide::sqrt}, {"sin", Halide::sin},     {"cos", Halide::cos},
      {"tan", Halide::tan},   {"asin", Halide::asin},   {"acos", Halide::acos},
      {"atan", Halide::atan}, {"sinh", Halide::sinh},   {"cosh", Halide::cosh},
      {"tanh", Halide::tanh}, {"asinh", Halide::asinh}, {"acosh", Halide::acosh},
      {"atanh", Halide::atanh}};
  static const std::map<std::string, Unary> rounding = {
      {"floor", Halide::floor}, {"ceil", Halide::ceil}, {"trunc", Halide::trunc},
      {"rint", Halide::round},  {"nearbyint", Halide::round}};
  if (auto found = direct.find(name); found != direct.end()) return found->second(x[0]);
  if (auto found = rounding.find(name); found != rounding.end()) return found->second(x[0]);
  if (name == "exp" || name == "log") {
    Expr value = name == "exp" ? Halide::exp(x[0]) : Halide::log(x[0]);
    // Halide's vector polynomials go through an integer exponent that a NaN does not survive.
    return select(is_number(x[0]), value, x[0]);
  }
  if (name == "abs" || name == "fabs") return Halide::abs(x[0]);
  if (name == "rsqrt") return make_one(x[0].type()) / Halide::sqrt(x[0]);
  if (name == "atan2") return Halide::atan2(x[0], x[1]);
  if (name == "fmax") return ignore(true, x[0], x[1]);
  if (name == "fmin") return ignore(false, x[0], x[1]);
  if (name == "exp10") return libm("pow", {make_const(x[0].type(), 10), x[0]});
  if (name == "isnan") return !is_number(x[0]);
  if (name == "isinf")
    return strict(Call::strict_eq, Halide::abs(x[0]),
                  FloatImm::make(x[0].type(), std::numeric_limits<double>::infinity()));
  if (name == "isfinite")
    return strict(Call::strict_lt, Halide::abs(x[0]),
                  FloatImm::make(x[0].type(), std::numeric_limits<double>::infinity()));
  return libm(name, x);
}

class LowerMath : public IRMutator {
 private:
  using IRMutator::visit;

  Expr visit(const Call* op) override {
    std::string name = ir::math_name(op);
    if (name.empty()) return IRMutator::visit(op);
    std::vector<Expr> arguments;
    for (const Expr& argument : op->args) arguments.push_back(mutate(argument));
    bool narrow = arguments[0].type().is_float() && arguments[0].type().bits() < 32;
    if (narrow)
      for (Expr& argument : arguments) argument = Halide::cast<float>(argument);
    Expr result = builtin(name, arguments);
    return result.type() == op->type ? result : Halide::cast(op->type, result);
  }

  Expr visit(const Max* op) override { return extremum(op, true); }
  Expr visit(const Min* op) override { return extremum(op, false); }
  template <class Node>
  Expr extremum(const Node* op, bool maximum) {
    if (!op->type.is_float()) return IRMutator::visit(op);
    Expr a = mutate(op->a), b = mutate(op->b);
    if (known_number(a)) std::swap(a, b);
    return propagate(maximum, a, b);
  }

  Expr visit(const LT* op) override { return compare(op, Call::strict_lt, false, false); }
  Expr visit(const LE* op) override { return compare(op, Call::strict_le, false, false); }
  Expr visit(const GT* op) override { return compare(op, Call::strict_lt, true, false); }
  Expr visit(const GE* op) override { return compare(op, Call::strict_le, true, false); }
  Expr visit(const EQ* op) override { return compare(op, Call::strict_eq, false, false); }
  Expr visit(const NE* op) override { return compare(op, Call::strict_eq, false, true); }
  template <class Node>
  Expr compare(const Node* op, Call::IntrinsicOp intrinsic, bool swap, bool negate) {
    if (!op->a.type().is_float()) return IRMutator::visit(op);
    Expr a = mutate(op->a), b = mutate(op->b);
    Expr result = swap ? strict(intrinsic, b, a) : strict(intrinsic, a, b);
    return negate ? !result : result;
  }
};

}  // namespace

Stmt lower_math(const Stmt& stmt) { return LowerMath().mutate(stmt); }

}  // namespace tc::codegen
