#include "codegen/vector_math.h"

#include <functional>
#include <limits>

#include "codegen/named.h"
#include "codegen/strict_math.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using namespace strict_math;
using ir::Expr;
using ir::Type;

/// NaN stays, here and below: comparisons with it are false.
Expr at_most(const Expr& x, double high) {
  return named(x,
               [&](const Expr& y) { return select(less(number(y, high), y), number(y, high), y); });
}

Expr between(double low, const Expr& x, double high) {
  return at_most(select(less(x, number(x, low)), number(x, low), x), high);
}

/// x = parts * h * log(2) + r with a whole h and |r| <= parts * log(2) / 2. `use` gets r and 2^h.
Expr reduce(const Expr& x, int parts,
            const std::function<Expr(const Expr& r, const Expr& power)>& use) {
  // Adding this leaves the nearest whole number in the last bits of the sum, plus 127 as in the
  // exponent of 2^h.
  Expr magic = number(x, 12582912 + 127);
  return named(x, [&](const Expr& y) {
    Expr scaled = multiply(y, number(y, 1.44269504088896341 / parts));
    return named(add(scaled, magic), [&](const Expr& shifted) {
      return named(subtract(shifted, magic), [&](const Expr& h) {
        // log(2) in two parts, of which the first has few bits.
        Expr rest = subtract(subtract(y, multiply(h, number(h, 0.693359375 * parts))),
                             multiply(h, number(h, -2.12194440e-4 * parts)));
        Type integer = Halide::Int(32, x.type().lanes());
        Expr power = reinterpret(x.type(), reinterpret(integer, shifted) << 23);
        return named(rest, [&](const Expr& r) {
          return named(power, [&](const Expr& p) { return use(r, p); });
        });
      });
    });
  });
}

/// exp(r), for |r| <= log(2), was fitted for the smallest relative error: 2^-26.
Expr exponential_near_zero(const Expr& r) {
  return polynomial(
      r, {0.00019611802, 0.0014104304, 0.008336099, 0.041661277, 0.16666615, 0.50000036, 1, 1});
}

/// Unlike Halide's exp it needs no rounding instruction, which 512-bit vectors get in halves, and
/// no tests: NaN passes through, and results too small or too large become denormal, zero or
/// infinite by the multiplications themselves. 2^n alone may be out of range, its root is not.
Expr exponential(const Expr& x) {
  // Beyond these the result is 0 or infinite.
  return reduce(between(-104, x, 89), 2, [](const Expr& r, const Expr& root) {
    return multiply(multiply(exponential_near_zero(r), root), root);
  });
}

/// For results that are normal numbers.
Expr exponential_within_range(const Expr& x) {
  return reduce(x, 1, [](const Expr& r, const Expr& power) {
    // Half the range, one power less.
    Expr p = polynomial(r, {0.0013814599, 0.008368717, 0.04166839, 0.16666521, 0.49999994, 1, 1});
    return multiply(p, power);
  });
}

/// 2^n of a whole n from -126 to 127.
Expr power_of_two(const Expr& n) {
  return reinterpret(Halide::Float(32, n.type().lanes()), (n + 127) << 23);
}

/// Exact for a whole x: 2^r is 1 for r = 0.
Expr exponential_of_two(const Expr& x) {
  Expr magic = number(x, 12582912);
  return named(between(-151, x, 129), [&](const Expr& y) {
    return named(add(y, magic), [&](const Expr& shifted) {
      Expr rest = subtract(y, subtract(shifted, magic));
      Type integer = Halide::Int(32, x.type().lanes());
      Expr whole = reinterpret(integer, shifted) - reinterpret(integer, magic);
      return named(rest, [&](const Expr& r) {
        return named(whole, [&](const Expr& n) {
          // Fitted for the smallest relative error, 2^-29. In two factors, since 2^n alone may be
          // out of range.
          Expr p = polynomial(r, {0.000153533416, 0.00133989006, 0.00961843785, 0.0555033237,
                                  0.240226477, 0.693147182, 1});
          Expr half = n >> 1;
          return multiply(multiply(p, power_of_two(half)), power_of_two(n - half));
        });
      });
    });
  });
}

/// exp(x) - 1 = 2^n (exp(r) - 1) + 2^n - 1, which keeps the digits of a small x.
Expr exponential_minus_one(const Expr& x) {
  Expr result = reduce(between(-104, x, 89), 2, [](const Expr& r, const Expr& root) {
    Expr p = polynomial(
        r, {0.00019611802, 0.0014104304, 0.008336099, 0.041661277, 0.16666615, 0.50000036});
    p = add(multiply(p, multiply(r, r)), r);
    Type integer = Halide::Int(32, root.type().lanes());
    Expr reciprocal = reinterpret(root.type(), (254 << 23) - reinterpret(integer, root));
    return multiply(add(multiply(p, root), subtract(root, reciprocal)), root);
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

/// Positive finite u = m * 2^e with m from 2/3 to 4/3. `use` gets e in the place where floats have
/// their exponents.
Expr split(const Expr& u, const std::function<Expr(const Expr& e)>& use) {
  Type integer = Halide::Int(32, u.type().lanes());
  const int two_thirds = 0x3f2aaaab, exponents = -(1 << 23);
  return named((reinterpret(integer, u) - two_thirds) & make_const(integer, exponents), use);
}

/// log((1 + f) * 2^e) for f from -1/3 to 1/3, where log(1 + f) was fitted for the smallest relative
/// error: 2^-28.
Expr logarithm_of_parts(const Expr& one_more, const Expr& e) {
  return named(one_more, [&](const Expr& f) {
    Expr p = polynomial(f, {-0.129489675, 0.140047565, -0.121671535, 0.140011609, -0.166823059,
                            0.200107470, -0.249997169, 0.333332092, -0.5});
    Expr near = add(multiply(p, multiply(f, f)), f);
    Expr exponent = Halide::cast(f.type(), e);
    return add(multiply(exponent, number(f, 0.693147180559945309 / (1 << 23))), near);
  });
}

/// The logarithm of a u that is not both positive and finite; an x that is infinite or NaN stays.
Expr outside_of_logarithm(const Expr& u, const Expr& x) {
  const double infinity = std::numeric_limits<double>::infinity();
  Expr nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return select(equal(u, number(u, 0)), number(x, -infinity),
                select(less(u, number(u, 0)), nan, x));
}

Expr is_positive_finite(const Expr& u) {
  return less(number(u, 0), u) && less(u, number(u, std::numeric_limits<double>::infinity()));
}

/// `use` gets m - 1 from -1/3 to 1/3 and the exponent e, in the place where floats have theirs, of
/// a positive finite x = m * 2^e.
Expr split_all(const Expr& x, const std::function<Expr(const Expr& f, const Expr& e)>& use) {
  Type integer = Halide::Int(32, x.type().lanes());
  Expr denormal = less(x, number(x, std::numeric_limits<float>::min()));
  return named(select(denormal, multiply(x, number(x, 1 << 23)), x), [&](const Expr& u) {
    return split(u, [&](const Expr& e) {
      Expr m = reinterpret(x.type(), reinterpret(integer, u) - e);
      Expr exponent = e - select(denormal, make_const(integer, 23 << 23), make_zero(integer));
      return use(subtract(m, number(x, 1)), exponent);
    });
  });
}

Expr logarithm(const Expr& x) {
  Expr result = split_all(x, logarithm_of_parts);
  return select(is_positive_finite(x), result, outside_of_logarithm(x, x));
}

/// Exact for powers of two.
Expr logarithm_to_two(const Expr& x) {
  Expr result = split_all(x, [](const Expr& one_more, const Expr& e) {
    return named(one_more, [&](const Expr& f) {
      // log2(1 + f) = f + f * p(f), of which p was fitted for the smallest relative error: 2^-28.
      Expr p = polynomial(f, {-0.187833369, 0.203238726, -0.175262302, 0.201698661, -0.240699813,
                              0.288718313, -0.360668778, 0.480895817, -0.72134757, 0.442695051});
      Expr near = add(multiply(p, f), f);
      return add(multiply(Halide::cast(f.type(), e), number(f, 1.0 / (1 << 23))), near);
    });
  });
  return select(is_positive_finite(x), result, outside_of_logarithm(x, x));
}

Expr logarithm_of_one_plus(const Expr& x) {
  Type integer = Halide::Int(32, x.type().lanes());
  return named(add(x, number(x, 1)), [&](const Expr& u) {
    Expr result = split(u, [&](const Expr& e) {
      // (1 + x) / 2^e - 1 with what u has lost of x. 4 / 2^e, unlike 1 / 2^e, is always normal.
      Expr four = reinterpret(x.type(), make_const(integer, 0x40800000) - e);
      Expr rest = subtract(multiply(four, number(x, 0.25)), number(x, 1));
      return logarithm_of_parts(add(reinterpret(x.type(), reinterpret(integer, x) - e), rest), e);
    });
    result = select(is_positive_finite(u), result, outside_of_logarithm(u, x));
    // Zero keeps its sign.
    return select(equal(x, number(x, 0)), x, result);
  });
}

/// C's copysign(magnitude, x).
Expr with_sign_of(const Expr& x, const Expr& magnitude) {
  Type bits = Halide::UInt(32, x.type().lanes());
  Expr sign = make_const(bits, uint32_t{1} << 31);
  return reinterpret(x.type(),
                     (reinterpret(bits, magnitude) & ~sign) | (reinterpret(bits, x) & sign));
}

/// exp(x) - 1 where 2^n is a normal number.
Expr exponential_minus_one_within_range(const Expr& x) {
  return reduce(x, 1, [](const Expr& r, const Expr& power) {
    Expr p = polynomial(r, {0.0013814599, 0.008368717, 0.04166839, 0.16666521, 0.49999994});
    p = add(multiply(p, multiply(r, r)), r);
    return add(multiply(p, power), subtract(power, number(power, 1)));
  });
}

/// Near 0 a polynomial of x^2 that was fitted for the smallest relative error, beyond it
/// 1 - 2 / (exp(2 |x|) + 1).
Expr hyperbolic_tangent(const Expr& x) {
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

/// 1 - exp(-|x| p(|x|)) with a polynomial p for -log(erfc(x)) / x that was fitted for the smallest
/// relative error of the result: 2^-28.
Expr error_function(const Expr& x) {
  // Beyond this the result is 1.
  return named(at_most(Halide::abs(x), 3.95), [&](const Expr& t) {
    // Of the factor 1.128... a part that is more exact.
    Expr p = polynomial(t, {-9.25565641e-06, 0.0001176356, -0.00063281566, 0.00166698656,
                            -0.000160352377, -0.0191530896, 0.102777838, 0.636619381, 0.128379167});
    Expr exponent = multiply(add(multiply(p, t), t), number(t, -1));
    return with_sign_of(x, multiply(exponential_minus_one_within_range(exponent), number(t, -1)));
  });
}

/// x^y = 2^(y log2 x) of an x that is not negative, in double.
Expr magnitude_of_power(const Expr& x, const Expr& y) {
  const Type wide = Halide::Float(64, x.type().lanes()), bits = Halide::Int(64, x.type().lanes());
  // 0 and infinity have logarithms.
  Expr logarithm =
      select(is_positive_finite(x),
             split_all(x,
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
  Expr exponent = between(-200, multiply(Halide::cast(wide, y), logarithm), 200);
  return named(exponent, [&](const Expr& t) {
    Expr magic = number(t, 0x1.8p+52);
    return named(add(t, magic), [&](const Expr& shifted) {
      return named(subtract(t, subtract(shifted, magic)), [&](const Expr& r) {
        // Fitted for the smallest relative error: 2^-34.
        Expr p = polynomial(r, {1.5196134287642885e-05, 0.00015466781518574141,
                                0.0013333935355440358, 0.0096180380596464533, 0.055504103653929868,
                                0.24022651067002851, 0.69314718070476278, 1});
        Expr scaled = reinterpret(bits, p) + (reinterpret(bits, shifted) << 52);
        return Halide::cast(x.type(), select(equal(t, t), reinterpret(wide, scaled), t));
      });
    });
  });
}

/// As C99's pow, annex F.9.4.4.
Expr power(const Expr& x, const Expr& y) {
  // Squares and cubes, which are most.
  if (auto exponent = as_const_float(y); exponent && (*exponent == 2 || *exponent == 3)) {
    Expr square = multiply(x, x);
    return *exponent == 2 ? square : multiply(square, x);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  Expr one = number(x, 1), nan = number(x, std::numeric_limits<double>::quiet_NaN());
  return named(Halide::abs(x), [&](const Expr& a) {
    Expr unity = equal(y, number(y, 0)) || equal(x, one) ||
                 (equal(a, one) && equal(Halide::abs(y), number(y, infinity)));
    return named(select(unity, one, magnitude_of_power(a, y)), [&](const Expr& magnitude) {
      Expr half = multiply(y, number(y, 0.5));
      Expr whole = equal(Halide::floor(y), y), even = equal(Halide::floor(half), half);
      // The sign bit, which -0 has as well.
      Expr negative = reinterpret(Halide::Int(32, x.type().lanes()), x) < 0;
      Expr of_negative = select(even, magnitude, multiply(magnitude, number(x, -1)));
      Expr finite = less(number(x, 0), a) && less(a, number(x, infinity));
      Expr of_broken = select(finite && !unity, nan, magnitude);
      return select(negative, select(whole, of_negative, of_broken), magnitude);
    });
  });
}

}  // namespace

Expr vector_math(const std::string& name, const std::vector<Expr>& arguments) {
  Expr (*function)(const Expr&) = nullptr;
  if (name == "exp") function = exponential;
  if (name == "expm1") function = exponential_minus_one;
  if (name == "log") function = logarithm;
  if (name == "log1p") function = logarithm_of_one_plus;
  if (name == "tanh") function = hyperbolic_tangent;
  if (name == "erf") function = error_function;
  if (name == "exp2") function = exponential_of_two;
  if (name == "log2") function = logarithm_to_two;
  if (arguments[0].type().element_of() != Halide::Float(32)) return {};
  if (name == "pow")
    return named(arguments[0], [&](const Expr& x) {
      return named(arguments[1], [&](const Expr& y) { return power(x, y); });
    });
  if (!function) return {};
  return named(arguments[0], function);
}

}  // namespace tc::codegen
