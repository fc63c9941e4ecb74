#include "codegen/math/vector_trigonometry.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

// Up to here three numbers for pi / 2 leave all digits of the rest (W. Cody and W. Waite, "Software
// Manual for the Elementary Functions", 1980, chapter 8).
constexpr double kLargest = 1e5;
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

using Function = Expr (*)(const Expr&);

Function function_of(const Call* op) {
  if (op->call_type != Call::PureExtern || op->type.is_vector()) return nullptr;
  if (op->name == "sin_f32" || op->name == "sin_f64") return sine;
  if (op->name == "cos_f32" || op->name == "cos_f64") return cosine;
  return nullptr;
}

/// The arguments of a value's calls that can be computed before it, each once.
std::vector<Expr> find_angles(const Expr& value) {
  std::vector<Expr> angles;
  Scope<> bound;
  // What a choice keeps from being read must not be read in front of it.
  bool chosen = false;
  int calls = 0;  // visited so far
  auto choose = [&](const auto* op, ir::Visitor& self) {
    ScopedValue<bool> inside(chosen, true);
    self.inside(op);
  };
  ir::visit(
      value, [&](const Select* op, ir::Visitor& self) { choose(op, self); },
      [&](const Call* op, ir::Visitor& self) {
        const int before = calls;
        op->is_intrinsic(Call::if_then_else) ? choose(op, self) : self.inside(op);
        if (!function_of(op) || calls++ != before) return;
        const Expr& x = op->args[0];
        if ((chosen && ir::has_load(x)) || expr_uses_vars(x, bound)) return;
        if (std::none_of(angles.begin(), angles.end(),
                         [&](const Expr& known) { return Halide::Internal::equal(known, x); }))
          angles.push_back(x);
      },
      [&](const Let* op, ir::Visitor& self) {
        op->value.accept(&self);
        ScopedBinding<> bind(bound, op->name);
        op->body.accept(&self);
      });
  return angles;
}

/// Calls of known angles, by their names, as C's or ours.
Stmt replace_calls(const Stmt& stmt, const std::vector<Expr>& angles,
                   const std::vector<Expr>& names, bool fast) {
  return ir::mutate(stmt, [&](const Call* op, ir::Mutator& self) {
    Function function = function_of(op);
    for (size_t i = 0; function && i < angles.size(); ++i) {
      if (!Halide::Internal::equal(op->args[0], angles[i])) continue;
      return fast ? function(names[i]) : Call::make(op->type, op->name, {names[i]}, op->call_type);
    }
    return self.inside(op);
  });
}

/// The store of a vector, by the angles that are computed before it.
Stmt choose_functions(const Store* op) {
  const std::vector<Expr> angles = find_angles(op->value);
  if (angles.empty()) return op;
  std::vector<Expr> names;
  Expr usual;
  for (const Expr& angle : angles) {
    const Expr& x = names.emplace_back(Variable::make(angle.type(), unique_name("angle")));
    Expr small = less(Halide::abs(x), number(x, kLargest));
    usual = usual.defined() ? usual && small : small;
  }
  Stmt fast = replace_calls(op, angles, names, true);
  Stmt slow = replace_calls(op, angles, names, false);
  Stmt result = IfThenElse::make(Halide::likely(usual), fast, slow);
  for (size_t i = names.size(); i-- > 0;)
    result = LetStmt::make(names[i].as<Variable>()->name, angles[i], result);
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
      [&](const Store* op, ir::Mutator&) { return vectors ? choose_functions(op) : Stmt(op); });
}

}  // namespace tc::codegen
