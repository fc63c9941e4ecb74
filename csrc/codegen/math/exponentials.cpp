#include "codegen/math/exponentials.h"

#include <functional>

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

Expr at_most(const Expr& x, double high) {
  return named(x,
               [&](const Expr& y) { return select(less(number(y, high), y), number(y, high), y); });
}

/// Beyond these exp is 0 or infinite.
Expr within_reach(const Expr& x) {
  return is_double(x) ? between(-746, x, 710) : between(-104, x, 89);
}

/// x = parts * h * log(2) + r with a whole h and |r| <= parts * log(2) / 2. `use` gets r and 2^h.
Expr reduce(const Expr& x, int parts,
            const std::function<Expr(const Expr& r, const Expr& power)>& use) {
  const FloatFormat format = format_of(x);
  // With what the exponent of 2^h counts from.
  const Expr magic = rounding_shift(x, format.bias);
  Names names;
  const Expr y = names(x);
  const Expr shifted = names(add(multiply(y, number(y, 1.44269504088896341 / parts)), magic));
  const Expr h = names(subtract(shifted, magic));
  // log(2) in two parts, of which the first has few bits.
  const double first = is_double(x) ? 0.69314718048553914 : 0.693359375;
  const double second = is_double(x) ? 7.4406171100123968e-11 : -2.12194440e-4;
  const Expr r = names(subtract(subtract(y, multiply(h, number(h, first * parts))),
                                multiply(h, number(h, second * parts))));
  const Expr power = names(from_bits(bits_of(shifted) << format.fraction_bits));
  return names.around(use(r, power));
}

// (exp(r) - 1 - r) / r^2, fitted for the smallest relative error of exp(r).

/// |r| <= log(2): 2^-26 or 2^-57.
Expr exponential_beyond_linear(const Expr& r) {
  if (is_double(r))
    return polynomial(r, {1.1545625660863579e-11, 1.6178899017003842e-10, 2.0876306734453041e-09,
                          2.5051387605090805e-08, 2.755732052282738e-07, 2.7557321303339271e-06,
                          2.4801587299766367e-05, 0.0001984126983835456, 0.0013888888888889982,
                          0.0083333333333350853, 0.041666666666666664, 0.16666666666666663, 0.5});
  return polynomial(
      r, {0.00019611802, 0.0014104304, 0.008336099, 0.041661277, 0.16666615, 0.50000036});
}

/// |r| <= log(2) / 2: 2^-28 or 2^-56.
Expr exponential_beyond_linear_of_half(const Expr& r) {
  if (is_double(r))
    return polynomial(
        r, {2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06,
            2.4801521295954376e-05, 0.00019841269863053618, 0.0013888888917213717,
            0.0083333333333300615, 0.041666666666624129, 0.16666666666666669, 0.50000000000000011});
  return polynomial(r, {0.0013814599, 0.008368717, 0.04166839, 0.16666521, 0.49999994});
}

/// exp(r) of its part beyond 1 + r.
Expr exponential_of_parts(const Expr& beyond, const Expr& r) {
  return add(multiply(add(multiply(beyond, r), number(r, 1)), r), number(r, 1));
}

/// exp(r) - 1 with all digits of a small r.
Expr minus_one_of_parts(const Expr& beyond, const Expr& r) {
  return add(multiply(beyond, multiply(r, r)), r);
}

/// For results that are normal numbers.
Expr exponential_within_range(const Expr& x) {
  return reduce(x, 1, [](const Expr& r, const Expr& power) {
    return multiply(exponential_of_parts(exponential_beyond_linear_of_half(r), r), power);
  });
}

/// exp(x) - 1 where exp(x) is a normal number.
Expr minus_one_within_range(const Expr& x) {
  return reduce(x, 1, [](const Expr& r, const Expr& power) {
    Expr p = minus_one_of_parts(exponential_beyond_linear_of_half(r), r);
    return add(multiply(p, power), subtract(power, number(power, 1)));
  });
}

/// sinh or cosh of a float, by double: of x = n log(2) + r the sum or difference of 2^n exp(r) and
/// its reciprocal, where sinh(r) and cosh(r) stand apart so that small results keep their digits.
Expr hyperbolic(const Expr& x, bool cosine) {
  // Beyond this the result is no finite float.
  const Expr t = Halide::cast(Halide::Float(64, x.type().lanes()), between(-90, x, 90));
  const Expr result = reduce(t, 1, [&](const Expr& r, const Expr& power) {
    Names names;
    const FloatFormat format = format_of(r);
    const Expr ones = integer(r, int64_t{2 * format.bias} << format.fraction_bits);
    const Expr reciprocal = names(from_bits(ones - bits_of(power)));
    const Expr sum = names(multiply(add(power, reciprocal), number(r, 0.5)));
    const Expr difference = names(multiply(subtract(power, reciprocal), number(r, 0.5)));
    const Expr z = names(multiply(r, r));
    // For |r| <= log(2) / 2, fitted for the smallest relative error: 2^-37 and 2^-34.
    const Expr sine = multiply(r, polynomial(z, {0.00019907557359118583, 0.008333283580240134,
                                                 0.16666666786031462, 0.9999999999955336}));
    const Expr even = polynomial(
        z, {0.0013948422700187394, 0.041666221304618084, 0.5000000106303204, 0.9999999999605668});
    return names.around(cosine ? add(multiply(sum, even), multiply(difference, sine))
                               : add(multiply(sum, sine), multiply(difference, even)));
  });
  return Halide::cast(x.type(), result);
}

/// The same of a double. Quarters of 2^n and 2^-n stand for them: where the result is finite, 2^n
/// may not be.
Expr hyperbolic_of_double(const Expr& x, bool cosine) {
  Names names;
  // Beyond this the result is infinite.
  const Expr t = names(at_most(Halide::abs(x), 710.6));
  const Expr result = reduce(t, 1, [&](const Expr& r, const Expr& power) {
    Names inside;
    const FloatFormat format = format_of(r);
    const Expr quarter =
        inside(from_bits(bits_of(power) - integer(r, 2LL << format.fraction_bits)));
    const Expr ones = integer(r, int64_t{2 * format.bias - 2} << format.fraction_bits);
    // It disappears beside 2^n long before it has no exponent any more.
    const Expr reciprocal =
        inside(select(less(t, number(t, 40)), from_bits(ones - bits_of(power)), number(t, 0)));
    const Expr sum = inside(add(quarter, reciprocal)), difference = subtract(quarter, reciprocal);
    const Expr z = inside(multiply(r, r));
    // For |r| <= log(2) / 2, terms of the series: 2^-57.
    const Expr beyond =
        polynomial(z, {1.6059043836821613e-10, 2.505210838544172e-08, 2.7557319223985893e-06,
                       0.0001984126984126984, 0.008333333333333333, 0.16666666666666666});
    const Expr sine = inside(add(multiply(multiply(r, z), beyond), r));
    const Expr even = inside(
        polynomial(z, {1.1470745597729725e-11, 2.08767569878681e-09, 2.755731922398589e-07,
                       2.48015873015873e-05, 0.001388888888888889, 0.041666666666666664, 0.5, 1}));
    const Expr half = cosine ? add(multiply(sum, even), multiply(difference, sine))
                             : add(multiply(sum, sine), multiply(difference, even));
    return inside.around(multiply(half, number(half, 2)));
  });
  if (cosine) return names.around(result);
  // Below 1 differences would lose digits: terms of the series, 2^-64.
  const Expr z = names(multiply(t, t));
  const Expr p =
      polynomial(z, {8.22063524662433e-18, 2.8114572543455206e-15, 7.647163731819816e-13,
                     1.6059043836821613e-10, 2.505210838544172e-08, 2.7557319223985893e-06,
                     0.0001984126984126984, 0.008333333333333333, 0.16666666666666666});
  const Expr near = add(multiply(multiply(t, z), p), t);
  return names.around(select(less(t, number(t, 1)), near, result));
}

/// 2^n of a whole n whose result is a normal number.
Expr power_of_two(const Expr& like, const Expr& n) {
  const FloatFormat format = format_of(like);
  return from_bits((n + integer(like, format.bias)) << format.fraction_bits);
}

}  // namespace

Expr between(double low, const Expr& x, double high) {
  return at_most(select(less(x, number(x, low)), number(x, low), x), high);
}

/// Unlike Halide's exp it needs no rounding instruction, which 512-bit vectors get in halves, and
/// no tests: NaN passes through, and results too small or too large become denormal, zero or
/// infinite by the multiplications themselves. 2^n alone may be out of range, its root is not.
Expr exponential(const Expr& x) {
  return reduce(within_reach(x), 2, [](const Expr& r, const Expr& root) {
    return multiply(multiply(exponential_of_parts(exponential_beyond_linear(r), r), root), root);
  });
}

/// exp(x) - 1 = 2^n (exp(r) - 1) + 2^n - 1, which keeps the digits of a small x.
Expr exponential_minus_one(const Expr& x) {
  Expr result = reduce(within_reach(x), 2, [](const Expr& r, const Expr& root) {
    Expr p = minus_one_of_parts(exponential_beyond_linear(r), r);
    const FloatFormat format = format_of(r);
    Expr ones = integer(r, int64_t{2 * format.bias} << format.fraction_bits);
    Expr reciprocal = from_bits(ones - bits_of(root));
    return multiply(add(multiply(p, root), subtract(root, reciprocal)), root);
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

Expr hyperbolic_tangent(const Expr& x) {
  // Of e = exp(2 |x|) - 1 it is e / (e + 2). Beyond 20 the result is 1.
  if (is_double(x)) {
    Expr twice = at_most(multiply(Halide::abs(x), number(x, 2)), 40);
    return named(minus_one_within_range(twice),
                 [&](const Expr& e) { return with_sign_of(x, divide(e, add(e, number(e, 2)))); });
  }
  // More exactly, near 0 a polynomial of x^2 that was fitted for the smallest relative error,
  // beyond it 1 - 2 / (exp(2 |x|) + 1).
  return named(Halide::abs(x), [&](const Expr& t) {
    Expr near = named(multiply(t, t), [&](const Expr& z) {
      Expr p =
          polynomial(z, {-0.00571703253, 0.0206505756, -0.0537434943, 0.133314912, -0.333332839});
      return add(multiply(multiply(p, z), t), t);
    });
    // Beyond 10 the result is 1.
    Expr e = exponential_within_range(at_most(multiply(t, number(t, 2)), 20));
    Expr far = subtract(number(t, 1), divide(number(t, 2), add(e, number(t, 1))));
    return with_sign_of(x, select(less(t, number(t, 0.625)), near, far));
  });
}

Expr hyperbolic_sine(const Expr& x) {
  // Zero keeps its sign.
  return with_sign_of(x, is_double(x) ? hyperbolic_of_double(x, false) : hyperbolic(x, false));
}

Expr hyperbolic_cosine(const Expr& x) {
  return is_double(x) ? hyperbolic_of_double(x, true) : hyperbolic(x, true);
}

Expr exponential_of_two(const Expr& x) { return exponential_of_two(x, Expr()); }

Expr exponential_of_two(const Expr& x, const Expr& low) {
  const Expr magic = rounding_shift(x);
  Names names;
  const Expr y = names(is_double(x) ? between(-1076, x, 1025) : between(-151, x, 129));
  const Expr shifted = names(add(y, magic));
  const Expr rest = subtract(y, subtract(shifted, magic));
  const Expr r = names(low.defined() ? add(rest, between(-0.5, low, 0.5)) : rest);
  const Expr n = names(bits_of(shifted) - bits_of(magic));
  // Fitted for the smallest relative error: 2^-29, of double 2^-55. In two factors, since 2^n alone
  // may be out of range.
  const Expr p =
      is_double(x)
          ? polynomial(r, {2.5729324177362305e-11, 4.4558179083360645e-10, 7.0548973041554995e-09,
                           1.0178057087733941e-07, 1.3215486808705563e-06, 1.5252733841556773e-05,
                           0.00015403530393370734, 0.001333355814640647, 0.00961812910762848,
                           0.055504108664821625, 0.24022650695910072, 0.6931471805599453, 1})
          : polynomial(r, {0.000153533416, 0.00133989006, 0.00961843785, 0.0555033237, 0.240226477,
                           0.693147182, 1});
  const Expr half = names(n >> 1);
  return names.around(multiply(multiply(p, power_of_two(x, half)), power_of_two(x, n - half)));
}

Expr exponential_of_two_for_floats(const Expr& t) {
  Names names;
  const Expr magic = rounding_shift(t), shifted = names(add(t, magic));
  const Expr r = names(subtract(t, subtract(shifted, magic)));
  // Fitted for the smallest relative error: 2^-34.
  const Expr p = polynomial(r, {1.5196134287642885e-05, 0.00015466781518574141,
                                0.0013333935355440358, 0.0096180380596464533, 0.055504103653929868,
                                0.24022651067002851, 0.69314718070476278, 1});
  const Expr scaled = from_bits(bits_of(p) + (bits_of(shifted) << 52));
  return names.around(select(equal(t, t), scaled, t));
}

/// 1 - exp(-|x| p(|x|)) with a polynomial p for -log(erfc(x)) / x that was fitted for the smallest
/// relative error of the result: 2^-28, of double 2^-54.
Expr error_function(const Expr& x) {
  // Beyond this the result is 1.
  return named(at_most(Halide::abs(x), is_double(x) ? 5.93 : 3.95), [&](const Expr& t) {
    // Of the factor 1.128... a part that is more exact.
    Expr p =
        is_double(x)
            ? polynomial(t,
                         {-3.58682102093838e-15,   1.6127050101390774e-13,  -3.360318490518735e-12,
                          4.297184645189348e-11,   -3.757104174530096e-10,  2.35845267167049e-09,
                          -1.0764444421584629e-08, 3.455513504222852e-08,   -6.565586518906268e-08,
                          -1.1868661245857156e-08, 5.708954721337836e-07,   -2.0375310488578897e-06,
                          3.1333162728653647e-06,  3.1693826697442106e-06,  -2.957548277762899e-05,
                          6.442038092380714e-05,   2.590453354028781e-05,   -0.0005901324392592214,
                          0.0016962076715714557,   -0.00020919485413082054, -0.01912844699307934,
                          0.1027726033013146,      0.636619772367591,       0.12837916709551256})
            : polynomial(
                  t, {-9.25565641e-06, 0.0001176356, -0.00063281566, 0.00166698656, -0.000160352377,
                      -0.0191530896, 0.102777838, 0.636619381, 0.128379167});
    Expr exponent = multiply(add(multiply(p, t), t), number(t, -1));
    return with_sign_of(x, multiply(minus_one_within_range(exponent), number(t, -1)));
  });
}

/// erfc(t) = w Q(w) exp(-t^2) with w = 1 / (1 + 0.3 t) and a polynomial Q that was fitted for the
/// smallest relative error over [0, 10.2], 2^-31: in double, since the result of a large t is as
/// exact as t^2 is in absolute terms.
Expr complementary_error_function(const Expr& x) {
  Names names;
  // Beyond this the result is 0.
  const Expr t =
      names(Halide::cast(Halide::Float(64, x.type().lanes()), at_most(Halide::abs(x), 10.2)));
  const Expr w = names(divide(number(t, 1), add(multiply(t, number(t, 0.3)), number(t, 1))));
  const Expr q = polynomial(
      w, {0.054751823524467835, -0.3268766701213583, 0.7281755086563819, -0.8149978235886501,
          0.7478569623969744, -0.2662607418230667, 0.2598388502543064, 0.11227821264655279,
          0.1672340590248736, 0.1687200716115113, 0.16927974694032122});
  const Expr exponent = names(multiply(multiply(t, t), number(t, -1.4426950408889634)));
  const Expr tail = names(multiply(multiply(q, w), exponential_of_two_for_floats(exponent)));
  const Expr whole = select(less(x, number(x, 0)), subtract(number(tail, 2), tail), tail);
  return names.around(Halide::cast(x.type(), whole));
}

}  // namespace tc::codegen
