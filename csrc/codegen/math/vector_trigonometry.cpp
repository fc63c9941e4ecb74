#include "codegen/math/vector_trigonometry.h"

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

// Up to here three numbers for pi / 2 leave all digits of the rest (W. Cody and W. Waite, "Software
// Manual for the Elementary Functions", 1980, chapter 8).
constexpr double kLargestAngle = 1e5;
/// Of two floats: doubles hold multiples by less than this, and tell quotients apart.
constexpr double kLargestQuotient = 1 << 27;
constexpr double kQuarterTurn[] = {1.57079637, -4.37113883e-08, -1.71512451e-15};
constexpr double kQuarterTurnOfDouble[] = {1.5707963267948966, 6.123233995736766e-17,
                                           -1.4973849048591698e-33};

/// x = n * pi / 2 + r with a whole n and |r| <= pi / 4. `use` gets r and n.
Expr reduce(const Expr& x, const std::function<Expr(const Expr& r, const Expr& n)>& use) {
  const Expr magic = rounding_shift(x);
  Names names;
  const Expr shifted = names(add(multiply(x, number(x, 0.636619772367581343)), magic));
  const Expr n = names(subtract(shifted, magic));
  Expr rest = x;
  for (double part : is_double(x) ? kQuarterTurnOfDouble : kQuarterTurn)
    rest = subtract(rest, multiply(n, number(n, part)));
  const Expr r = names(rest);
  const Expr quadrant =
      names(reinterpret(Halide::UInt(x.type().bits(), x.type().lanes()), shifted));
  return names.around(use(r, quadrant));
}

// For |r| <= pi / 4, fitted for the smallest relative error: 2^-28 and 2^-34, of double 2^-55 and
// 2^-60.
Expr sine_near_zero(const Expr& r) {
  return named(multiply(r, r), [&](const Expr& z) {
    Expr p = is_double(r) ? polynomial(z, {1.5918073162923074e-10, -2.5051131065736049e-08,
                                           2.7557316098812687e-06, -0.00019841269836751364,
                                           0.0083333333333309445, -0.16666666666666666})
                          : polynomial(z, {-0.00019515153, 0.00833215937, -0.166666552});
    return add(multiply(multiply(r, z), p), r);
  });
}
Expr cosine_near_zero(const Expr& r) {
  Expr z = multiply(r, r);
  if (is_double(r))
    return polynomial(
        z, {-1.1367957727072798e-11, 2.0875886043616835e-09, -2.7557315561959828e-07,
            2.4801587293680839e-05, -0.0013888888888880758, 0.041666666666666637, -0.5, 1});
  return polynomial(z, {2.43833983e-05, -0.00138866797, 0.0416666195, -0.5, 1});
}

Expr is_odd(const Expr& n) { return (n & 1) != 0; }

/// Minus x where bit 1 of n is set.
Expr with_sign(const Expr& x, const Expr& n) {
  Expr sign = (n & 2) << (x.type().bits() - 2);
  return reinterpret(x.type(), reinterpret(n.type(), x) ^ sign);
}

Expr sine(const Expr& x) {
  Expr result = reduce(x, [](const Expr& r, const Expr& n) {
    return with_sign(select(is_odd(n), cosine_near_zero(r), sine_near_zero(r)), n);
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

Expr cosine(const Expr& x) {
  return reduce(x, [](const Expr& r, const Expr& n) {
    return with_sign(select(is_odd(n), sine_near_zero(r), cosine_near_zero(r)), n + 1);
  });
}

/// sin(x) / cos(x), or -cos(x) / sin(x), of what is left of x.
Expr tangent_of_double(const Expr& x) {
  Expr result = reduce(x, [](const Expr& r, const Expr& n) {
    Names names;
    const Expr sine = names(sine_near_zero(r)), cosine = names(cosine_near_zero(r));
    const Expr odd = names(is_odd(n));
    const Expr over = select(odd, multiply(cosine, number(r, -1)), sine);
    return names.around(divide(over, select(odd, sine, cosine)));
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

/// Of float, by double: in float the reciprocal of what is rounded already would be too far off.
Expr tangent(const Expr& x) {
  const Expr wide = Halide::cast(Halide::Float(64, x.type().lanes()), x);
  Expr result = reduce(wide, [&](const Expr& r, const Expr& n) {
    Names names;
    const Expr z = names(multiply(r, r));
    // For |r| <= pi / 4, fitted for the smallest relative error: 2^-33.
    const Expr p = polynomial(z, {0.0020401433072068697, -0.0005935945578035671,
                                  0.004990756684717585, 0.008332272352098739, 0.021984460974197626,
                                  0.05395465674707738, 0.13333410431236511, 0.33333331848786163});
    const Expr near = names(Halide::cast(x.type(), add(multiply(multiply(r, z), p), r)));
    const Expr quadrant = Halide::cast(Halide::UInt(32, x.type().lanes()), n);
    return names.around(select(is_odd(quadrant), divide(number(near, -1), near), near));
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

/// x - n y, exactly, of floats by double: n has 28 bits at most and y has 24. The quotient of two
/// floats is a whole number or differs from one by 2^-24 at least, from the half of one by 2^-26,
/// which no rounding of a double covers.
Expr without_multiple(const Expr& x, const Expr& y, Expr (*whole)(Expr)) {
  const Type wide = Halide::Float(64, x.type().lanes());
  Names names;
  const Expr a = names(Halide::cast(wide, x)), b = names(Halide::cast(wide, y));
  const Expr rest = subtract(a, multiply(whole(divide(a, b)), b));
  return names.around(Halide::cast(x.type(), rest));
}

Expr truncated_remainder(const Expr& x, const Expr& y) {
  return with_sign_of(x, without_multiple(x, y, Halide::trunc));
}

Expr rounded_remainder(const Expr& x, const Expr& y) {
  return named(without_multiple(x, y, Halide::round), [&](const Expr& rest) {
    return select(equal(rest, number(rest, 0)), with_sign_of(x, rest), rest);
  });
}

using Arguments = std::vector<Expr>;

/// A function in operations that vectors have.
struct VectorForm {
  Expr (*value)(const Arguments&);
  Expr (*usual)(const Arguments&);  ///< where it may be taken
};

Expr is_small_angle(const Arguments& x) {
  return less(Halide::abs(x[0]), number(x[0], kLargestAngle));
}

Expr is_short_quotient(const Arguments& x) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Expr a = Halide::abs(x[0]), b = Halide::abs(x[1]);
  return less(a, multiply(b, number(b, kLargestQuotient))) && less(b, number(b, infinity));
}

template <Expr (*Function)(const Expr&)>
constexpr VectorForm kOfAngle = {[](const Arguments& x) { return Function(x[0]); }, is_small_angle};

template <Expr (*Function)(const Expr&, const Expr&)>
constexpr VectorForm kOfQuotient = {[](const Arguments& x) { return Function(x[0], x[1]); },
                                    is_short_quotient};

const VectorForm* vector_form(const Call* op) {
  static const std::map<std::string, VectorForm> forms = {
      {"sin_f32", kOfAngle<sine>},
      {"sin_f64", kOfAngle<sine>},
      {"cos_f32", kOfAngle<cosine>},
      {"cos_f64", kOfAngle<cosine>},
      {"tan_f32", kOfAngle<tangent>},
      {"tan_f64", kOfAngle<tangent_of_double>},
      {"fmodf", kOfQuotient<truncated_remainder>},
      {"remainderf", kOfQuotient<rounded_remainder>}};
  if (op->call_type != Call::PureExtern || op->type.is_vector()) return nullptr;
  const auto found = forms.find(op->name);
  return found == forms.end() ? nullptr : &found->second;
}

std::optional<size_t> find(const std::vector<Expr>& among, const Expr& e) {
  for (size_t i = 0; i < among.size(); ++i)
    if (Halide::Internal::equal(among[i], e)) return i;
  return {};
}

/// What the calls of a value depend on that can be computed before it.
struct Known {
  std::vector<Expr> arguments;   ///< each once
  std::vector<Expr> names;       ///< of those
  std::vector<Expr> conditions;  ///< on names, each once

  /// Names of the arguments of a call; nothing where not all are known.
  Arguments names_of(const Call* op) const {
    Arguments result;
    for (const Expr& argument : op->args) {
      const std::optional<size_t> i = find(arguments, argument);
      if (!i) return {};
      result.push_back(names[*i]);
    }
    return result;
  }
  void add(const Call* op) {
    for (const Expr& argument : op->args) {
      if (find(arguments, argument)) continue;
      arguments.push_back(argument);
      names.push_back(Variable::make(argument.type(), unique_name("argument")));
    }
    const Expr condition = vector_form(op)->usual(names_of(op));
    if (!find(conditions, condition)) conditions.push_back(condition);
  }
};

Known find_calls(const Expr& value) {
  Known known;
  Scope<> bound;
  // What a lazy choice keeps from being read must not be read in front of it.
  bool chosen = false;
  int calls = 0;  // visited so far
  ir::visit(
      value,
      [&](const Call* op, ir::Visitor& self) {
        const int before = calls;
        ScopedValue<bool> inside(chosen, chosen || op->is_intrinsic(Call::if_then_else));
        self.inside(op);
        if (!vector_form(op) || calls++ != before) return;
        for (const Expr& x : op->args)
          if ((chosen && ir::has_load(x)) || expr_uses_vars(x, bound)) return;
        known.add(op);
      },
      [&](const Let* op, ir::Visitor& self) {
        op->value.accept(&self);
        ScopedBinding<> bind(bound, op->name);
        op->body.accept(&self);
      });
  return known;
}

/// Calls of known arguments, by their names, as C's or ours.
Stmt replace_calls(const Stmt& stmt, const Known& known, bool fast) {
  return ir::mutate(stmt, [&](const Call* op, ir::Mutator& self) {
    const VectorForm* form = vector_form(op);
    const Arguments names = form ? known.names_of(op) : Arguments();
    if (names.empty() || !find(known.conditions, form->usual(names))) return self.inside(op);
    return fast ? form->value(names) : Call::make(op->type, op->name, names, op->call_type);
  });
}

/// A value without the names around its calls, which go in front of the store; but for those in
/// lazy choices and, where a guard says what lanes are on, those of what is read.
Expr take_names(const Expr& value, bool guarded, std::vector<std::pair<std::string, Expr>>& names) {
  Scope<> staying;
  return ir::mutate(
      value,
      [&](const Call* op, ir::Mutator& self) -> Expr {
        return op->is_intrinsic(Call::if_then_else) ? Expr(op) : self.inside(op);
      },
      [&](const Let* op, ir::Mutator& self) -> Expr {
        const Expr named = self.mutate(op->value);
        if ((guarded && ir::has_load(named)) || expr_uses_vars(named, staying)) {
          ScopedBinding<> stays(staying, op->name);
          return Let::make(op->name, named, self.mutate(op->body));
        }
        // The same name may stand around several calls.
        names.emplace_back(unique_name(op->name), named);
        return self.mutate(
            substitute(op->name, Variable::make(named.type(), names.back().first), op->body));
      });
}

/// The store of a vector, by the arguments that are computed before it. Under a `guard`, which says
/// what lanes are on, they are 1 in the others, for which no C library is called therefore: Halide
/// makes predicates of guards around a store alone.
Stmt choose_functions(const Store* given, const Expr& guard = {}) {
  std::vector<std::pair<std::string, Expr>> named;
  const Expr value = take_names(given->value, guard.defined(), named);
  const Known known = find_calls(value);
  if (known.arguments.empty())
    return guard.defined() ? IfThenElse::make(guard, given) : Stmt(given);
  const Stmt op = Store::make(given->name, value, given->index, given->param, given->predicate,
                              given->alignment);
  const Stmt stmt = guard.defined() ? IfThenElse::make(guard, op) : op;
  Expr usual;
  for (const Expr& condition : known.conditions)
    usual = usual.defined() ? usual && condition : condition;
  Stmt fast = replace_calls(stmt, known, true);
  Stmt slow = replace_calls(op, known, false);
  Stmt result = IfThenElse::make(Halide::likely(usual), fast, slow);
  for (size_t i = known.names.size(); i-- > 0;) {
    Expr argument = known.arguments[i];
    if (guard.defined()) argument = ir::choose_lazily(guard, argument, make_one(argument.type()));
    result = LetStmt::make(known.names[i].as<Variable>()->name, argument, result);
  }
  for (size_t i = named.size(); i-- > 0;)
    result = LetStmt::make(named[i].first, named[i].second, result);
  return result;
}

}  // namespace

Stmt vectorize_trigonometry(const Stmt& stmt) {
  bool vectors = false;  // around what is visited
  return ir::mutate(
      stmt,
      [&](const For* op, ir::Mutator& self) {
        ScopedValue<bool> inside(vectors, vectors || op->for_type == ForType::Vectorized);
        return self.inside(op);
      },
      [&](const IfThenElse* op, ir::Mutator& self) {
        const auto* store = op->then_case.as<Store>();
        const bool tail =
            vectors && store && !op->else_case.defined() && !ir::has_load(op->condition);
        return tail ? choose_functions(store, op->condition) : self.inside(op);
      },
      [&](const Store* op, ir::Mutator&) { return vectors ? choose_functions(op) : Stmt(op); });
}

}  // namespace tc::codegen
