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

/// turns * pi / 2 - x, of which the digits of pi / 2 behind those of a float count too.
Expr from_quarter_turns(int turns, const Expr& x) {
  return subtract(number(x, turns * 1.57079637050628662), add(x, number(x, turns * 4.37113883e-8)));
}

/// atan(t) for 0 <= t <= 1, fitted for the smallest relative error: 2^-28.
Expr arc_tangent_to_one(const Expr& t) {
  Names names;
  const Expr z = names(multiply(t, t));
  const Expr p =
      polynomial(z, {-0.0017936303, 0.010914648, -0.0311779324, 0.0579576865, -0.0840345621,
                     0.109521881, -0.142642424, 0.199985489, -0.333332986});
  return names.around(add(multiply(multiply(t, z), p), t));
}

/// To here asin(x) is a polynomial; beyond it, pi / 2 - acos(x) has as many digits as acos(x).
constexpr double kNear = 0.5625;

/// asin(s) of s = sqrt(z) for 0 <= s <= kNear, fitted for the smallest relative error: 2^-29.
Expr near_arc_sine(const Expr& s, const Expr& z) {
  const Expr p = polynomial(
      z, {0.0475081019, 0.00671844883, 0.0340199396, 0.0442305468, 0.0750211105, 0.166666314});
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
  Names names;
  const Expr t = names(Halide::cast(wide(x), Halide::abs(x)));
  const Expr root = Halide::sqrt(add(multiply(t, t), number(t, 1)));
  const Expr far = logarithm_for_floats(names(add(t, root)));
  const Expr near = near_zero(t, -1.0 / 6);
  const Expr result = select(less(t, number(t, kNearZero)), near, far);
  return names.around(with_sign_of(x, Halide::cast(x.type(), result)));
}

Expr area_hyperbolic_cosine(const Expr& x) {
  Names names;
  const Expr t = names(Halide::cast(wide(x), x));
  const Expr root = Halide::sqrt(subtract(multiply(t, t), number(t, 1)));
  const Expr result = Halide::cast(x.type(), logarithm_for_floats(names(add(t, root))));
  const Expr nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return names.around(select(less(x, number(x, 1)), nan, result));
}

Expr area_hyperbolic_tangent(const Expr& x) {
  Names names;
  const Expr t = names(Halide::cast(wide(x), Halide::abs(x)));
  const Expr ratio = names(divide(add(number(t, 1), t), subtract(number(t, 1), t)));
  const Expr far = multiply(logarithm_for_floats(ratio), number(t, 0.5));
  const Expr near = near_zero(t, 1.0 / 3);
  const Expr result = select(less(t, number(t, kNearZero)), near, far);
  return names.around(with_sign_of(x, Halide::cast(x.type(), result)));
}

}  // namespace tc::codegen
