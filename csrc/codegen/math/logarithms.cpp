#include "codegen/math/logarithms.h"

#include <cmath>
#include <limits>

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

/// Normal u = m * 2^e with m from 2/3 to 4/3. `use` gets e in its place.
Expr split_normal(const Expr& u, const std::function<Expr(const Expr& e)>& use) {
  const int64_t one = int64_t{1} << format_of(u).fraction_bits;
  return named((bits_of(u) - bits_of_number(u, 2.0 / 3)) & integer(u, -one), use);
}

/// e as a number, times `factor`.
Expr multiply_exponent(const Expr& e, const Expr& like, double factor) {
  return multiply(Halide::cast(like.type(), e),
                  number(like, std::ldexp(factor, -format_of(like).fraction_bits)));
}

/// (log(1 + f) - f) / f^2 for |f| <= 1/3, fitted for the smallest relative error of log(1 + f):
/// 2^-28 or 2^-57.
Expr logarithm_beyond_linear(const Expr& f) {
  if (is_double(f))
    return polynomial(f, {-0.079392207389595057, 0.082991141643179167,  -0.040621354178743928,
                          0.042859564777987191,  -0.056933647464338287, 0.060259207799232356,
                          -0.062378334095689582, 0.066539927822203498,  -0.07143528467736171,
                          0.076930069689242597,  -0.083333102557580668, 0.090908850533794938,
                          -0.10000000474985592,  0.11111111605841685,   -0.12499999994641579,
                          0.14285714280133216,   -0.16666666666694324,  0.20000000000028806,
                          -0.24999999999999958,  0.33333333333333287,   -0.5});
  return polynomial(f, {-0.129489675, 0.140047565, -0.121671535, 0.140011609, -0.166823059,
                        0.200107470, -0.249997169, 0.333332092, -0.5});
}

Expr logarithm_of_parts(const Expr& one_more, const Expr& e) {
  return named(one_more, [&](const Expr& f) {
    Expr near = add(multiply(logarithm_beyond_linear(f), multiply(f, f)), f);
    return add(multiply_exponent(e, f, 0.693147180559945309), near);
  });
}

}  // namespace

Expr is_positive_finite(const Expr& x) {
  return less(number(x, 0), x) && less(x, number(x, std::numeric_limits<double>::infinity()));
}

Expr outside_of_logarithm(const Expr& u, const Expr& x) {
  Expr nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return select(equal(u, number(u, 0)), number(x, -std::numeric_limits<double>::infinity()),
                select(less(u, number(u, 0)), nan, x));
}

Expr split_float(const Expr& x, const std::function<Expr(const Expr& f, const Expr& e)>& use) {
  const FloatFormat format = format_of(x);
  const int more = format.fraction_bits;
  Expr denormal = less(x, number(x, std::ldexp(1.0, 1 - format.bias)));
  Expr normal = select(denormal, multiply(x, number(x, std::ldexp(1.0, more))), x);
  return named(normal, [&](const Expr& u) {
    return split_normal(u, [&](const Expr& e) {
      Expr f = subtract(from_bits(bits_of(u) - e), number(x, 1));
      Expr added = integer(x, static_cast<int64_t>(more) << format.fraction_bits);
      return use(f, e - select(denormal, added, integer(x, 0)));
    });
  });
}

Expr logarithm(const Expr& x) {
  Expr result = split_float(x, logarithm_of_parts);
  return select(is_positive_finite(x), result, outside_of_logarithm(x, x));
}

Expr logarithm_of_one_plus(const Expr& x) {
  return named(add(x, number(x, 1)), [&](const Expr& u) {
    Expr result = split_normal(u, [&](const Expr& e) {
      // (1 + x) / 2^e - 1 with what u has lost of x. 4 / 2^e, unlike 1 / 2^e, is always normal.
      Expr four = from_bits(bits_of_number(x, 4) - e);
      Expr rest = subtract(multiply(four, number(x, 0.25)), number(x, 1));
      return logarithm_of_parts(add(from_bits(bits_of(x) - e), rest), e);
    });
    result = select(is_positive_finite(u), result, outside_of_logarithm(u, x));
    // Zero keeps its sign.
    return select(equal(x, number(x, 0)), x, result);
  });
}

Expr logarithm_to_two(const Expr& x) {
  Expr result = split_float(x, [](const Expr& one_more, const Expr& e) {
    return named(one_more, [&](const Expr& f) {
      // log2(1 + f) = f + f * p(f), of which p was fitted for the smallest relative error: 2^-28,
      // of double 2^-55.
      Expr p =
          is_double(f)
              ? polynomial(f, {-0.11762772904378664, 0.12294765124062544,  -0.05689045380457881,
                               0.06004862131254744,  -0.08254191835856499, 0.08735640184157033,
                               -0.0899401890905651,  0.09594191829454012,  -0.10306348777459579,
                               0.1109909588745224,   -0.12022405102512942, 0.13115353666891527,
                               -0.1442695169612666,  0.16029946239408985,  -0.18033687993121478,
                               0.2060992913682001,   -0.24044917348278044, 0.2885390081791326,
                               -0.3606737602222373,  0.48089834696298406,  -0.7213475204444817,
                               0.4426950408889634})
              : polynomial(f, {-0.187833369, 0.203238726, -0.175262302, 0.201698661, -0.240699813,
                               0.288718313, -0.360668778, 0.480895817, -0.72134757, 0.442695051});
      return add(multiply_exponent(e, f, 1), add(multiply(p, f), f));
    });
  });
  return select(is_positive_finite(x), result, outside_of_logarithm(x, x));
}

/// As in the C library of FreeBSD (e_pow.c): log(1 + f) = 2 s + 2/3 s^3 + ... of s = f / (2 + f),
/// in pairs of doubles up to the third power.
std::pair<Expr, Expr> logarithm_to_two_in_parts(const Expr& x, Names& names) {
  const Expr denormal = names(less(x, number(x, 0x1p-1022)));
  const Expr u = names(select(denormal, multiply(x, number(x, 0x1p52)), x));
  const Expr e = names((bits_of(u) - bits_of_number(u, 2.0 / 3)) & integer(u, -(int64_t{1} << 52)));
  const Expr m = names(from_bits(bits_of(u) - e));
  // Not every processor has conversions of 64 bits.
  const int lanes = x.type().lanes();
  const Expr high = Halide::cast(Halide::Int(32, lanes), e >> 32);
  const Expr exponent = names(subtract(multiply(Halide::cast(x.type(), high), number(x, 0x1p-20)),
                                       select(denormal, number(x, 52), number(x, 0))));
  const Expr f = names(subtract(m, number(x, 1)));
  const Expr d = names(add(m, number(x, 1)));
  const Expr d_rest = names(subtract(m, subtract(d, number(x, 1))));
  const Expr inverse = names(divide(number(x, 1), d));
  const Expr s_high = names(high_part(multiply(f, inverse))), d_high = names(high_part(d));
  const Expr d_low = names(add(subtract(d, d_high), d_rest));
  const Expr rest = subtract(subtract(f, multiply(s_high, d_high)), multiply(s_high, d_low));
  const Expr s_low = names(multiply(rest, inverse));
  const Expr s = names(add(s_high, s_low));
  const Expr z = names(multiply(s, s));
  // 3 (log(1 + f) / (2 s) - 1 - s^2 / 3) = 3 s^4 (1/5 + ...), fitted: 2^-65 of the logarithm.
  const Expr p = polynomial(
      z, {0.056284952155066494, 0.05195895066400867, 0.05885122749492403, 0.06666600626923845,
          0.07692308614130906, 0.09090909083695636, 0.11111111111139348, 0.14285714285714243, 0.2});
  const Expr square = names(multiply(s_high, s_high));
  const Expr beyond = names(
      add(multiply(multiply(multiply(z, z), number(x, 3)), p), multiply(s_low, add(s_high, s))));
  const Expr t_high = names(high_part(add(add(square, beyond), number(x, 3))));
  const Expr t_low = names(subtract(beyond, subtract(subtract(t_high, number(x, 3)), square)));
  const Expr product = names(multiply(s_high, t_high));
  const Expr product_rest = names(add(multiply(s_low, t_high), multiply(t_low, s)));
  const Expr log_high = names(high_part(add(product, product_rest)));
  const Expr log_low = names(subtract(product_rest, subtract(log_high, product)));
  // 2 / (3 log(2)) in two parts.
  const double factor = 0.9617966939259756, first = 0.9617966860532761;
  const double second = 7.872699542894897e-09;
  const Expr two_high = names(multiply(log_high, number(x, first)));
  const Expr two_low =
      names(add(multiply(log_high, number(x, second)), multiply(log_low, number(x, factor))));
  const Expr sum = names(high_part(add(add(two_high, two_low), exponent)));
  return {sum, names(subtract(two_low, subtract(subtract(sum, exponent), two_high)))};
}

Expr logarithm_to_ten(const Expr& x) {
  Expr result = split_float(x, [](const Expr& one_more, const Expr& e) {
    return named(one_more, [&](const Expr& f) {
      // Both factors are in two parts, of which the first has few bits.
      const double first = is_double(f) ? 0.3010299956640665 : 0.301025390625;
      const double second = is_double(f) ? -8.532344317057107e-14 : 4.6050389811952e-06;
      Expr square = multiply(multiply(logarithm_beyond_linear(f), multiply(f, f)),
                             number(f, 0.4342944819032518));
      Expr low = add(multiply_exponent(e, f, second),
                     add(multiply(f, number(f, -0.0032055180967481725)), square));
      Expr near = add(multiply(f, number(f, 0.4375)), low);
      return add(multiply_exponent(e, f, first), near);
    });
  });
  return select(is_positive_finite(x), result, outside_of_logarithm(x, x));
}

Expr logarithm_for_floats(const Expr& u) {
  const int lanes = u.type().lanes();
  Expr result = split_normal(u, [&](const Expr& e) {
    // Not every processor has conversions of 64 bits.
    Expr high = reinterpret(Halide::UInt(64, lanes), e) >> 32;
    Expr exponent = Halide::cast(u.type(), Halide::cast(Halide::Int(32, lanes), high));
    return named(subtract(from_bits(bits_of(u) - e), number(u, 1)), [&](const Expr& wide_f) {
      return named(Halide::cast(Halide::Float(32, lanes), wide_f), [&](const Expr& f) {
        // What is beyond f is exact enough in float.
        Expr beyond = Halide::cast(u.type(), multiply(logarithm_beyond_linear(f), multiply(f, f)));
        return add(multiply(exponent, number(u, std::ldexp(0.693147180559945309, -20))),
                   add(beyond, wide_f));
      });
    });
  });
  return select(is_positive_finite(u), result, outside_of_logarithm(u, u));
}

}  // namespace tc::codegen
