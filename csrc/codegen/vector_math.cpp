#include "codegen/vector_math.h"

#include <functional>
#include <initializer_list>
#include <limits>

#include "codegen/named.h"
#include "codegen/strict_floats.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Type;

Expr add(const Expr& a, const Expr& b) { return strict(a.type(), Call::strict_add, a, b); }
Expr subtract(const Expr& a, const Expr& b) { return strict(a.type(), Call::strict_sub, a, b); }
Expr multiply(const Expr& a, const Expr& b) { return strict(a.type(), Call::strict_mul, a, b); }
Expr divide(const Expr& a, const Expr& b) { return strict(a.type(), Call::strict_div, a, b); }
Expr less(const Expr& a, const Expr& b) {
  return strict(Halide::Bool(a.type().lanes()), Call::strict_lt, a, b);
}
Expr equal(const Expr& a, const Expr& b) {
  return strict(Halide::Bool(a.type().lanes()), Call::strict_eq, a, b);
}
Expr number(const Expr& like, double value) { return make_const(like.type(), value); }

/// From the highest power down.
Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
  Expr sum;
  for (double c : coefficients)
    sum = sum.defined() ? add(multiply(sum, x), number(x, c)) : number(x, c);
  return sum;
}

/// NaN stays, here and below: comparisons with it are false.
Expr at_most(const Expr& x, double high) {
  return named(x,
               [&](const Expr& y) { return select(less(number(y, high), y), number(y, high), y); });
}

Expr between(double low, const Expr& x, double high) {
  return at_most(select(less(x, number(x, low)), number(x, low), x), high);
}

/// x = n * log(2) + r with a whole n and |r| <= log(2) / 2. `use` gets exp(r) - 1 and n.
Expr reduce(const Expr& x, const std::function<Expr(const Expr& p, const Expr& n)>& use) {
  // Adding this leaves the nearest whole number in the last bits of the sum.
  Expr magic = number(x, 12582912);
  return named(x, [&](const Expr& y) {
    return named(add(multiply(y, number(y, 1.44269504088896341)), magic), [&](const Expr& shifted) {
      return named(subtract(shifted, magic), [&](const Expr& n) {
        // log(2) in two parts, of which the first has few bits.
        Expr rest = subtract(subtract(y, multiply(n, number(n, 0.693359375))),
                             multiply(n, number(n, -2.12194440e-4)));
        return named(rest, [&](const Expr& r) {
          // The polynomial is that of Cephes' expf (S. Moshier).
          Expr p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                                  4.1665795894e-2, 1.6666665459e-1, 0.5});
          p = add(multiply(p, multiply(r, r)), r);
          Type integer = Halide::Int(32, x.type().lanes());
          Expr whole = reinterpret(integer, shifted) - reinterpret(integer, magic);
          return named(whole, [&](const Expr& exponent) { return use(p, exponent); });
        });
      });
    });
  });
}

/// 2^n of a whole n from -126 to 127.
Expr power(const Expr& n) {
  return reinterpret(Halide::Float(32, n.type().lanes()), (n + 127) << 23);
}

/// Unlike Halide's exp it needs no rounding instruction, which 512-bit vectors get in halves, and
/// no tests: NaN passes through, and results too small or too large become denormal, zero or
/// infinite by the multiplications themselves.
Expr exponential(const Expr& x) {
  // Beyond these the result is 0 or infinite.
  return reduce(between(-104, x, 89), [](const Expr& p, const Expr& n) {
    // In two factors, since 2^n alone may be out of range.
    Expr half = n >> 1;
    return multiply(multiply(add(p, number(p, 1)), power(half)), power(n - half));
  });
}

/// For results that are normal numbers.
Expr exponential_within_range(const Expr& x) {
  return reduce(
      x, [](const Expr& p, const Expr& n) { return multiply(add(p, number(p, 1)), power(n)); });
}

/// exp(x) - 1 = 2^n (exp(r) - 1) + 2^n - 1, which keeps the digits of a small x.
Expr exponential_minus_one(const Expr& x) {
  Expr result = reduce(between(-104, x, 89), [](const Expr& p, const Expr& n) {
    Expr half = n >> 1;
    Expr first = power(half), second = power(n - half), reciprocal = power(half - n);
    return multiply(add(multiply(p, first), subtract(first, reciprocal)), second);
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

/// log(u) with u = 1 + x, and what u has lost of x.
Expr logarithm_of_one_plus(const Expr& x) {
  return named(add(x, number(x, 1)), [&](const Expr& u) {
    Expr lost = divide(subtract(x, subtract(u, number(u, 1))), u);
    Expr infinity = number(x, std::numeric_limits<double>::infinity());
    // Of 0 and infinity nothing is lost; a negative u and NaN give NaN.
    Expr logarithm = select(less(u, infinity) && equal(u, u), halide_log(u), u);
    Expr result =
        add(logarithm, select(less(number(u, 0), u) && less(u, infinity), lost, number(u, 0)));
    return select(equal(x, number(x, 0)), x, result);
  });
}

/// Near 0 a polynomial of x^2 that was fitted for the smallest relative error, beyond it
/// 1 - 2 / (exp(2 |x|) + 1).
Expr hyperbolic_tangent(const Expr& x) {
  return named(Halide::abs(x), [&](const Expr& t) {
    Expr near = named(multiply(x, x), [&](const Expr& z) {
      Expr p =
          polynomial(z, {-0.00571703253, 0.0206505756, -0.0537434943, 0.133314912, -0.333332839});
      return multiply(x, add(multiply(p, z), number(x, 1)));
    });
    // Beyond 10 the result is 1.
    Expr e = exponential_within_range(at_most(multiply(t, number(t, 2)), 20));
    Expr far = subtract(number(t, 1), divide(number(t, 2), add(e, number(t, 1))));
    Expr sign = select(less(x, number(x, 0)), -far, far);
    return select(less(t, number(t, 0.625)), near, sign);
  });
}

/// Up to 1 a polynomial of x^2, beyond it 1 - exp(-p(|x|)) with a polynomial p for -log(erfc), both
/// fitted for the smallest error of the result. From 4 on the result is 1.
Expr error_function(const Expr& x) {
  return named(Halide::abs(x), [&](const Expr& magnitude) {
    Expr near = multiply(
        x, polynomial(multiply(x, x), {7.85385785e-05, -0.000801019281, 0.00518832763,
                                       -0.0268538119, 0.112835851, -0.376126258, 1.12837917}));
    Expr far = named(at_most(magnitude, 4), [&](const Expr& t) {
      Expr p = polynomial(t, {-0.000186777897, 0.00295188558, -0.0218563467, 0.103148041,
                              0.638093483, 1.12712255, 0.000332677561});
      return subtract(number(t, 1), exponential_within_range(multiply(p, number(t, -1))));
    });
    Expr sign = select(less(x, number(x, 0)), -far, far);
    return select(less(magnitude, number(x, 1)), near, sign);
  });
}

}  // namespace

Expr vector_math(const std::string& name, const std::vector<Expr>& arguments) {
  Expr (*function)(const Expr&) = nullptr;
  if (name == "exp") function = exponential;
  if (name == "expm1") function = exponential_minus_one;
  if (name == "log1p") function = logarithm_of_one_plus;
  if (name == "tanh") function = hyperbolic_tangent;
  if (name == "erf") function = error_function;
  if (!function || arguments[0].type().element_of() != Halide::Float(32)) return {};
  return named(arguments[0], function);
}

}  // namespace tc::codegen
