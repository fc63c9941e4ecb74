#include "codegen/math/vector_math.h"

#include <cmath>
#include <limits>
#include <map>

#include "codegen/math/exponentials.h"
#include "codegen/math/float_bits.h"
#include "codegen/math/inverse_functions.h"
#include "codegen/math/logarithms.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

/// x^y = 2^(y log2 x) of floats, x not negative, in double.
Expr magnitude_of_power(const Expr& x, const Expr& y) {
  const Type wide = Halide::Float(64, x.type().lanes());
  // 0 and infinity have logarithms.
  Expr logarithm = select(
      is_positive_finite(x),
      split_float(x,
                  [&](const Expr& one_more, const Expr& e) {
                    return named(Halide::cast(wide, one_more), [&](const Expr& f) {
                      // Fitted for the smallest relative error: 2^-36, of which y can leave
                      // 2^-29.
                      Expr p = polynomial(
                          f, {0.15754167771311584, -0.16610532505989264, 0.12356284574368374,
                              -0.13746108817942623, 0.16089122301680678, -0.18080606546144271,
                              0.2060759738090345, -0.24043366033291991, 0.28853944172273155,
                              -0.36067397861677492, 0.4808983439617377, -0.72134751956930299,
                              1.4426950408923302});
                      return add(multiply(p, f),
                                 multiply(Halide::cast(wide, e), number(f, 1.0 / (1 << 23))));
                    });
                  }),
      Halide::cast(wide, outside_of_logarithm(x, x)));
  Names names;
  const Expr t = names(between(-200, multiply(Halide::cast(wide, y), logarithm), 200));
  return names.around(Halide::cast(x.type(), exponential_of_two_for_floats(t)));
}

/// The same of doubles, in pairs of which the first has few bits: within two units in the last
/// place.
Expr magnitude_of_double_power(const Expr& x, const Expr& exponent) {
  const double infinity = std::numeric_limits<double>::infinity();
  Names names;
  // Larger ones make everything but 1 infinite or 0, and so do these.
  const Expr y = names(between(-0x1p70, exponent, 0x1p70));
  const auto [log_high, log_low] = logarithm_to_two_in_parts(x, names);
  const Expr y_high = names(high_part(y));
  const Expr low =
      names(add(multiply(subtract(y, y_high), add(log_high, log_low)), multiply(y_high, log_low)));
  const Expr high = names(multiply(y_high, log_high));
  const Expr general = exponential_of_two(high, low);
  const Expr zero = number(x, 0), infinite = number(x, infinity);
  const Expr is_zero = equal(x, zero), grows = less(zero, y);
  const Expr outside = select(is_zero, select(grows, zero, infinite),
                              select(equal(x, infinite), select(grows, infinite, zero), x));
  return names.around(select(is_positive_finite(x), general, select(equal(y, y), outside, y)));
}

/// x^n of a whole n > 0 by squares.
Expr whole_power(const Expr& x, int n) {
  Names names;
  Expr square = x, power;
  for (; n > 0; n >>= 1) {
    if (n & 1) power = power.defined() ? multiply(power, square) : square;
    if (n > 1) square = names(multiply(square, square));
  }
  return names.around(power);
}

/// Powers that a few operations make, within two units in the last place, of doubles within three;
/// nothing for other exponents. As C99's pow, annex F.9.4.4, which takes roots of -0 and of
/// -infinity for those of 0 and infinity.
Expr short_power(const Expr& x, double exponent) {
  const bool is_single = x.type().bits() == 32;
  const Expr one = number(x, 1);
  const auto root = [&] {
    const double infinity = std::numeric_limits<double>::infinity();
    const Expr positive = select(equal(x, number(x, -infinity)), number(x, infinity), x);
    return Halide::sqrt(add(positive, number(x, 0)));
  };
  // Of NaN too.
  if (exponent == 0) return one;
  if (exponent == 1) return x;
  if (exponent == 2) return multiply(x, x);
  if (exponent == 3) return multiply(multiply(x, x), x);
  if (exponent == -1) return divide(one, x);
  if (exponent == 0.5) return root();
  if (exponent == -0.5) return divide(one, root());
  if (exponent == 1.5) return multiply(clear_sign(x), root());
  if (!is_single) {
    // Of more products, roundings add up to more.
    const bool few = exponent >= 4 && exponent <= 6 && exponent == std::floor(exponent);
    return few ? whole_power(x, static_cast<int>(exponent)) : Expr();
  }
  // In doubles, whose roundings disappear in that to a float, and which are 0 or infinite only
  // where the float is. Up to here that takes fewer operations than a logarithm.
  if (std::abs(exponent) > 16 || exponent != std::floor(exponent)) return {};
  const Expr power = whole_power(Halide::cast(Halide::Float(64, x.type().lanes()), x),
                                 static_cast<int>(std::abs(exponent)));
  return Halide::cast(x.type(), exponent < 0 ? divide(number(power, 1), power) : power);
}

/// In double: of the bits of a number a third is a first guess, of which two steps of Halley's
/// method leave 2^-40 (Kahan's cube root), and one more all digits.
Expr cube_root(const Expr& x) {
  const int lanes = x.type().lanes();
  Names names;
  Expr a = names(Halide::cast(Halide::Float(64, lanes), Halide::abs(x))), scale;
  if (is_double(x)) {
    // Denormal numbers have no exponent to take a third of, and three times a large one is
    // infinite.
    const Expr small = names(less(a, number(a, 1e-300))), large = names(less(number(a, 1e300), a));
    const auto by = [&](double of_small, double of_large) {
      return select(small, number(a, of_small), select(large, number(a, of_large), number(a, 1)));
    };
    scale = names(by(0x1p-18, 0x1p18));
    a = names(multiply(a, by(0x1p54, 0x1p-54)));
  }
  const Expr high = Halide::cast(Halide::UInt(32, lanes), bits_of(a) >> 32);
  const Expr third = high / Halide::Internal::make_const(high.type(), 3) +
                     Halide::Internal::make_const(high.type(), 715094163);
  Expr root = names(from_bits(Halide::cast(Halide::Int(64, lanes), third) << 32));
  for (int steps = 0; steps < 2; ++steps) {
    const Expr cube = names(multiply(multiply(root, root), root));
    root = names(multiply(root, divide(add(add(a, a), cube), add(a, add(cube, cube)))));
  }
  if (is_double(x)) {
    const Expr cube = names(multiply(multiply(root, root), root));
    const Expr rest = divide(subtract(a, cube), add(a, add(cube, cube)));
    root = multiply(add(multiply(root, rest), root), scale);
  }
  // Zero, infinity and NaN are their own roots.
  const Expr magnitude = select(is_positive_finite(a), root, a);
  return names.around(with_sign_of(x, Halide::cast(x.type(), magnitude)));
}

/// As C99's pow.
Expr power(const Expr& x, const Expr& y) {
  const double infinity = std::numeric_limits<double>::infinity();
  Expr one = number(x, 1), nan = number(x, std::numeric_limits<double>::quiet_NaN());
  Names names;
  const Expr a = names(Halide::abs(x));
  Expr unity = equal(y, number(y, 0)) || equal(x, one) ||
               (equal(a, one) && equal(Halide::abs(y), number(y, infinity)));
  const Expr magnitude = names(select(
      unity, one, is_double(x) ? magnitude_of_double_power(a, y) : magnitude_of_power(a, y)));
  Expr half = multiply(y, number(y, 0.5));
  Expr whole = equal(Halide::floor(y), y), even = equal(Halide::floor(half), half);
  // The sign bit, which -0 has as well.
  Expr negative = bits_of(x) < 0;
  Expr of_negative = select(even, magnitude, multiply(magnitude, number(x, -1)));
  Expr finite = less(number(x, 0), a) && less(a, number(x, infinity));
  Expr of_broken = select(finite && !unity, nan, magnitude);
  return names.around(select(negative, select(whole, of_negative, of_broken), magnitude));
}

/// As C99's hypot, of floats, whose squares are exact in double.
Expr hypotenuse(const Expr& x, const Expr& y) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Type wide = Halide::Float(64, x.type().lanes());
  Names names;
  const Expr a = names(Halide::cast(wide, x)), b = names(Halide::cast(wide, y));
  const Expr length = Halide::cast(x.type(), Halide::sqrt(add(multiply(a, a), multiply(b, b))));
  // An infinite length, whatever the other is.
  const Expr is_infinite =
      equal(Halide::abs(x), number(x, infinity)) || equal(Halide::abs(y), number(y, infinity));
  return names.around(select(is_infinite, number(x, infinity), length));
}

}  // namespace

Expr vector_math(const std::string& name, const std::vector<Expr>& arguments) {
  using Function = Expr (*)(const Expr&);
  static const std::map<std::string, Function> functions = {{"acos", arc_cosine},
                                                            {"acosh", area_hyperbolic_cosine},
                                                            {"asin", arc_sine},
                                                            {"asinh", area_hyperbolic_sine},
                                                            {"atan", arc_tangent},
                                                            {"atanh", area_hyperbolic_tangent},
                                                            {"cbrt", cube_root},
                                                            {"cosh", hyperbolic_cosine},
                                                            {"erf", error_function},
                                                            {"exp", exponential},
                                                            {"exp2", exponential_of_two},
                                                            {"expm1", exponential_minus_one},
                                                            {"log", logarithm},
                                                            {"log10", logarithm_to_ten},
                                                            {"log1p", logarithm_of_one_plus},
                                                            {"log2", logarithm_to_two},
                                                            {"sinh", hyperbolic_sine},
                                                            {"tanh", hyperbolic_tangent}};
  const bool is_single = arguments[0].type().bits() == 32;
  if (auto found = functions.find(name); found != functions.end())
    return named(arguments[0], found->second);
  if (name == "erfc" && is_single) return named(arguments[0], complementary_error_function);
  if (name != "pow" && name != "atan2" && (name != "hypot" || !is_single)) return {};
  Names names;
  const Expr x = names(arguments[0]);
  if (name == "pow")
    if (const auto exponent = as_const_float(arguments[1]))
      if (const Expr power = short_power(x, *exponent); power.defined()) return names.around(power);
  const Expr y = names(arguments[1]);
  const auto function = name == "pow" ? power : name == "atan2" ? arc_tangent_of_two : hypotenuse;
  return names.around(function(x, y));
}

}  // namespace tc::codegen
