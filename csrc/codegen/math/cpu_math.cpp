#include "codegen/math/cpu_math.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/narrow_floats.h"
#include "codegen/math/special_functions.h"
#include "codegen/math/strict_math.h"
#include "codegen/math/vector_math.h"
#include "codegen/names.h"
#include "ir/expressions/narrow_floats.h"
#include "ir/program.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

Expr is_number(const Expr& x) { return equal(x, x); }
/// Whether it is a constant, and no NaN.
bool known_number(const Expr& x) {
  if (const auto* cast = x.as<Halide::Internal::Cast>()) return known_number(cast->value);
  const std::optional<double> value = as_const_float(x);
  return is_const(x) && !(value && std::isnan(*value));
}

/// max or min that returns a NaN operand, as PyTorch's do.
Expr propagate(bool maximum, const Expr& a, const Expr& b) {
  Names names;
  const Expr x = names(a), y = names(b);
  // An unordered comparison is false, which keeps a NaN in x; one in y needs a test of its own.
  Expr best = maximum ? select(less(x, y), y, x) : select(less(y, x), y, x);
  return names.around(known_number(y) ? best : select(is_number(y), best, y));
}

/// C's fmax or fmin: a NaN operand is ignored.
Expr ignore(bool maximum, const Expr& a, const Expr& b) {
  Names names;
  const Expr x = names(a), y = names(b);
  Expr best = maximum ? select(less(y, x), x, y) : select(less(x, y), x, y);
  // Unordered gives y, which is right for a NaN in x.
  return names.around(known_number(y) ? best : select(is_number(y), best, x));
}

Expr infinity(Type type) {
  return FloatImm::make(type.element_of(), std::numeric_limits<double>::infinity());
}

Expr libm(const std::string& name, const std::vector<Expr>& arguments) {
  // The order of jn and yn, their first argument, is an integer.
  Type type = arguments.back().type();
  return Call::make(type, name + (type.bits() == 32 ? "f" : ""), arguments, Call::PureExtern);
}

/// C's round, of which Halide takes the name for its own, to even.
Expr round_away(const Expr& x) {
  Expr whole = Halide::trunc(x), one = make_one(x.type());
  Expr half = make_const(x.type(), 0.5);
  Expr away = whole + select(less(x, make_zero(x.type())), -one, one);
  // A difference of infinities is no number, and no comparison holds for it.
  return select(less(Halide::abs(x - whole), half) || !is_number(x - whole), whole, away);
}

/// Halide takes what is not at least 0 from 0, in doubles, which leaves -0.0 as it is.
Expr absolute(const Expr& x) { return is_double(x) ? clear_sign(x) : Halide::abs(x); }

Expr builtin(const std::string& name, const std::vector<Expr>& x) {
  if (Expr fast = vector_math(name, x); fast.defined()) return fast;
  using Unary = Expr (*)(Expr);
  // Halide's own agree with C's for every argument, NaN and infinities included, or are guarded.
  static const std::map<std::string, Unary> direct = {
      {"sqrt", Halide::sqrt},   {"sin", Halide::sin},     {"cos", Halide::cos},
      {"tan", Halide::tan},     {"asin", Halide::asin},   {"acos", Halide::acos},
      {"atan", Halide::atan},   {"sinh", Halide::sinh},   {"cosh", Halide::cosh},
      {"asinh", Halide::asinh}, {"acosh", Halide::acosh}, {"atanh", Halide::atanh},
      {"floor", Halide::floor}, {"ceil", Halide::ceil},   {"trunc", Halide::trunc},
      {"rint", Halide::round}};
  if (auto found = direct.find(name); found != direct.end()) return found->second(x[0]);
  if (name == "round") return named(x[0], round_away);
  if (name == "fabs") return absolute(x[0]);
  if (name == "rsqrt") return make_one(x[0].type()) / Halide::sqrt(x[0]);
  if (name == "atan2") return Halide::atan2(x[0], x[1]);
  if (name == "fmax") return ignore(true, x[0], x[1]);
  if (name == "fmin") return ignore(false, x[0], x[1]);
  if (name == "exp10") return libm("pow", {make_const(x[0].type(), 10), x[0]});
  if (name == "isnan") return named(x[0], [](const Expr& y) { return !is_number(y); });
  if (name == "isinf")
    return named(x[0], [](const Expr& y) {
      return equal(y, infinity(y.type())) || equal(y, -infinity(y.type()));
    });
  for (const SpecialFunction& special : kSpecialFunctions) {
    if (name != special.name) continue;
    Type wide = Halide::Float(64, x[0].type().lanes());
    Expr argument = Halide::cast(wide, x[0]);
    return Halide::cast(
        x[0].type(), Call::make(wide, special_function_symbol(name), {argument}, Call::PureExtern));
  }
  return libm(name, x);
}

class LowerMath : public IRMutator {
 public:
  explicit LowerMath(NarrowConversions has) : has_(has) {}

 private:
  using IRMutator::visit;

  Expr to_float(const Expr& e) const { return codegen::to_float(e, has_); }
  Expr from_float(const Expr& e, Type type) const { return codegen::from_float(e, type, has_); }

  Expr visit(const Call* op) override {
    std::string name = ir::math_name(op);
    if (name.empty()) return IRMutator::visit(op);
    std::vector<Expr> arguments;
    for (const Expr& argument : op->args) arguments.push_back(to_float(mutate(argument)));
    return from_float(builtin(name, arguments), op->type);
  }

  Expr visit(const Cast* op) override {
    Type from = op->value.type();
    if (!ir::is_narrow_float(from) && !ir::is_narrow_float(op->type)) return IRMutator::visit(op);
    return convert(mutate(op->value), op->type, has_);
  }

  Expr visit(const Add* op) override { return in_float<Add>(op); }
  Expr visit(const Sub* op) override { return in_float<Sub>(op); }
  Expr visit(const Mul* op) override { return in_float<Mul>(op); }
  Expr visit(const Div* op) override { return in_float<Div>(op); }
  Expr visit(const LT* op) override { return in_float<LT>(op); }
  Expr visit(const LE* op) override { return in_float<LE>(op); }
  Expr visit(const GT* op) override { return in_float<GT>(op); }
  Expr visit(const GE* op) override { return in_float<GE>(op); }
  Expr visit(const EQ* op) override { return in_float<EQ>(op); }
  Expr visit(const NE* op) override { return in_float<NE>(op); }
  template <class Node>
  Expr in_float(const Node* op) {
    if (!ir::is_narrow_float(op->a.type())) return IRMutator::visit(op);
    Expr result = Node::make(to_float(mutate(op->a)), to_float(mutate(op->b)));
    return op->type.is_bool() ? result : from_float(result, op->type);
  }

  Expr visit(const Max* op) override { return extremum(op, true); }
  Expr visit(const Min* op) override { return extremum(op, false); }
  template <class Node>
  Expr extremum(const Node* op, bool maximum) {
    if (!op->type.is_float()) return IRMutator::visit(op);
    Expr a = to_float(mutate(op->a)), b = to_float(mutate(op->b));
    if (known_number(a)) std::swap(a, b);
    return from_float(propagate(maximum, a, b), op->type);
  }

  const NarrowConversions has_;
};

}  // namespace

Stmt lower_math(const Stmt& stmt, NarrowConversions has) { return LowerMath(has).mutate(stmt); }

}  // namespace tc::codegen
