#include "codegen/math/inverse_functions.h"

#include <functional>
#include <limits>

#include "codegen/math/float_bits.h"
#include "codegen/math/logarithms.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

/// turns * pi / 2 - x, of which the digits of pi / 2 behind those of a float or double count too.
Expr from_quarter_turns(int turns, const Expr& x) {
  if (is_double(x))
    return subtract(number(x, turns * 1.5707963267948966),
                    subtract(x, number(x, turns * 6.123233995736766e-17)));
  return subtract(number(x, turns * 1.57079637050628662), add(x, number(x, turns * 4.37113883e-8)));
}

/// atan(t) for 0 <= t <= 1, fitted for the smallest relative error: 2^-28, of double 2^-54.
Expr arc_tangent_to_one(const Expr& t) {
  Names names;
  const Expr z = names(multiply(t, t));
  const Expr p =
      is_double(t)
          ? polynomial(z, {-1.1832505417555692e-05, 0.0001368724853148122, -0.0007518472526973822,
                           0.002622977891906089,    -0.006575683344151699, 0.012756172907694298,
                           -0.020238706986393514,   0.027567942297344678,  -0.033750132001619734,
                           0.03872640214042632,     -0.04308119655330471,  0.04752086773576656,
                           -0.05261265735709454,    0.05882074956371294,   -0.06666636435777692,
                           0.07692305354678655,     -0.09090908969557403,  0.11111111107234799,
                           -0.14285714285648404,    0.19999999999999554,   -0.3333333333333333})
          : polynomial(z, {-0.0017936303, 0.010914648, -0.0311779324, 0.0579576865, -0.0840345621,
                           0.109521881, -0.142642424, 0.199985489, -0.333332986});
  return names.around(add(multiply(multiply(t, z), p), t));
}

/// To here asin(x) is a polynomial; beyond it, pi / 2 - acos(x) has as many digits as acos(x).
constexpr double kNear = 0.5625;

/// asin(s) of s = sqrt(z) for 0 <= s <= kNear, fitted for the smallest relative error: 2^-29, of
/// double 2^-57.
Expr near_arc_sine(const Expr& s, const Expr& z) {
  const Expr p =
      is_double(s)
          ? polynomial(z, {0.054577644016749256, -0.07006396488009473, 0.062330998352170645,
                           -0.01990357954444299, 0.015573698677408125, 0.006577467532650101,
                           0.010044474134401649, 0.011520416943192046, 0.013967286562471983,
                           0.017352634763719208, 0.022372163562850142, 0.03038194435190286,
                           0.04464285714385684, 0.07499999999999575, 0.16666666666666666})
          : polynomial(z, {0.0475081019, 0.00671844883, 0.0340199396, 0.0442305468, 0.0750211105,
                           0.166666314});
  return add(multiply(multiply(s, z), p), s);
}

/// `use` gets whether a = |x| is less than kNear, and asin(a) or beyond that acos(a) / 2, which is
/// asin(sqrt((1 - a) / 2)).
Expr half_arc(const Expr& x, const std::function<Expr(const Expr& near, const Expr& arc)>& use) {
  Names names;
  const Expr a = names(Halide::abs(x));
  const Expr near = less(a, number(a, kNear));
  const Expr z =
      names(select(near, multiply(a, a), multiply(subtract(number(a, 1), a), number(a, 0.5))));
  const Expr s = names(select(near, a, Halide::sqrt(z)));
  const Expr arc = names(near_arc_sine(s, z));
  return names.around(use(near, arc));
}

/// In double, of which logarithms near 0 have lost the less digits the less there are in a float.
Type wide(const Expr& x) { return Halide::Float(64, x.type().lanes()); }

/// Below this two terms of a series are exact enough for floats, beyond it a logarithm of doubles.
constexpr double kNearZero = 1.0 / 1024;

// The same of double, by log(1 + u), which keeps the digits of a small u.

/// Beyond this |x| is the root of x * x + 1 and of x * x - 1, and x * x may be infinite.
constexpr double kLarge = 1e9;

/// log(1 + u) for an x up to kLarge, beyond it log(2 x).
Expr logarithm_of_sum(const Expr& x, const Expr& u) {
  Names names;
  const Expr large = less(number(x, kLarge), x);
  const Expr sum = names(select(large, subtract(x, number(x, 1)), u));
  const Expr more = select(large, number(x, 0.69314718055994531), number(x, 0));
  return names.around(add(logarithm_of_one_plus(sum), more));
}

Expr area_sine_of_double(const Expr& x) {
  Names names;
  const Expr a = names(Halide::abs(x)), square = names(multiply(a, a));
  const Expr root = Halide::sqrt(add(square, number(a, 1)));
  const Expr u = names(add(a, divide(square, add(root, number(a, 1)))));
  return names.around(with_sign_of(x, logarithm_of_sum(a, u)));
}

Expr area_cosine_of_double(const Expr& x) {
  Names names;
  const Expr t = names(subtract(x, number(x, 1)));
  const Expr u = names(add(t, Halide::sqrt(add(add(t, t), multiply(t, t)))));
  const Expr nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return names.around(select(less(x, number(x, 1)), nan, logarithm_of_sum(x, u)));
}

Expr area_tangent_of_double(const Expr& x) {
  Names names;
  const Expr a = names(Halide::abs(x));
  const Expr u = names(divide(add(a, a), subtract(number(a, 1), a)));
  return names.around(with_sign_of(x, multiply(logarithm_of_one_plus(u), number(a, 0.5))));
}

/// t + factor * t^3 for a small t.
Expr near_zero(const Expr& t, double factor) {
  return add(multiply(multiply(t, multiply(t, t)), number(t, factor)), t);
}

}  // namespace

Expr arc_sine(const Expr& x) {
  return half_arc(x, [&](const Expr& near, const Expr& arc) {
    return with_sign_of(x, select(near, arc, from_quarter_turns(1, add(arc, arc))));
  });
}

Expr arc_cosine(const Expr& x) {
  return half_arc(x, [&](const Expr& near, const Expr& arc) {
    Names names;
    const Expr twice = names(add(arc, arc));
    const Expr far = select(less(x, number(x, 0)), from_quarter_turns(2, twice), twice);
    return names.around(select(near, from_quarter_turns(1, with_sign_of(x, arc)), far));
  });
}

Expr arc_tangent(const Expr& x) {
  Names names;
  const Expr a = names(Halide::abs(x));
  const Expr steep = less(number(a, 1), a);
  const Expr arc = names(arc_tangent_to_one(names(select(steep, divide(number(a, 1), a), a))));
  return names.around(with_sign_of(x, select(steep, from_quarter_turns(1, arc), arc)));
}

Expr arc_tangent_of_two(const Expr& y, const Expr& x) {
  Names names;
  const Expr a = names(Halide::abs(x)), b = names(Halide::abs(y));
  const Expr steep = less(a, b);
  const Expr low = names(select(steep, a, b)), high = names(select(steep, b, a));
  // As if equal zeros had the angle of the axis, and infinities that of its bisector.
  const Expr zero = number(high, 0);
  const Expr of_equal = select(equal(high, zero), zero, number(high, 1));
  const Expr slope = names(select(equal(low, high), of_equal, divide(low, high)));
  const Expr arc = names(arc_tangent_to_one(slope));
  // The sign bit, which -0 has as well.
  const Expr behind = bits_of(x) < 0;
  const Expr flat = select(behind, from_quarter_turns(2, arc), arc);
  const Expr angle = select(steep, from_quarter_turns(1, with_sign_of(x, arc)), flat);
  return names.around(with_sign_of(y, angle));
}

Expr area_hyperbolic_sine(const Expr& x) {
  if (is_double(x)) return area_sine_of_double(x);
  Names names;
  const Expr t = names(Halide::cast(wide(x), Halide::abs(x)));
  const Expr root = Halide::sqrt(add(multiply(t, t), number(t, 1)));
  const Expr far = logarithm_for_floats(names(add(t, root)));
  const Expr near = near_zero(t, -1.0 / 6);
  const Expr result = select(less(t, number(t, kNearZero)), near, far);
  return names.around(with_sign_of(x, Halide::cast(x.type(), result)));
}

Expr area_hyperbolic_cosine(const Expr& x) {
  if (is_double(x)) return area_cosine_of_double(x);
  Names names;
  const Expr t = names(Halide::cast(wide(x), x));
  const Expr root = Halide::sqrt(subtract(multiply(t, t), number(t, 1)));
  const Expr result = Halide::cast(x.type(), logarithm_for_floats(names(add(t, root))));
  const Expr nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return names.around(select(less(x, number(x, 1)), nan, result));
}

Expr area_hyperbolic_tangent(const Expr& x) {
  if (is_double(x)) return area_tangent_of_double(x);
  Names names;
  const Expr t = names(Halide::cast(wide(x), Halide::abs(x)));
  const Expr ratio = names(divide(add(number(t, 1), t), subtract(number(t, 1), t)));
  const Expr far = multiply(logarithm_for_floats(ratio), number(t, 0.5));
  const Expr near = near_zero(t, 1.0 / 3);
  const Expr result = select(less(t, number(t, kNearZero)), near, far);
  return names.around(with_sign_of(x, Halide::cast(x.type(), result)));
}

}  // namespace tc::codegen
