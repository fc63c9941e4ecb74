// CUDA's mathematical functions beside those of C, for tests: slow, and right to the last bits.
#include <math.h>

#include <cmath>

namespace {

/// The x where `f` rises or falls through `y`, by bisection: slow, and right to the last bits.
double invert(double (*f)(double), double y, double low, double high, bool rising) {
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    ((f(middle) < y) == rising ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Modified Bessel function of the first kind by its power series, which has no cancellation.
double bessel_i(int n, double x) {
  double term = n == 0 ? 1 : x / 2, sum = term;
  for (int k = 1; k < 2000 && std::abs(term) > 1e-18 * std::abs(sum); ++k) {
    term *= (x / 2) * (x / 2) / (double(k) * (k + n));
    sum += term;
  }
  return sum;
}

}  // namespace

extern "C" {
double rsqrt(double x) { return 1 / sqrt(x); }
double rcbrt(double x) { return 1 / cbrt(x); }
double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
double erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? HUGE_VAL : y == -1 ? -HUGE_VAL : NAN;
  return y < 0 ? -invert(erf, -y, 0, 7, true) : invert(erf, y, 0, 7, true);
}
double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : NAN;
  return invert(erfc, y, -7, 28, false);
}
double erfcx(double x) {
  if (x < 20) return exp(x * x) * erfc(x);
  const double r = 1 / (x * x);
  return (1 - r / 2 * (1 - 1.5 * r * (1 - 2.5 * r))) / (x * sqrt(M_PI));
}
double normcdf(double x) { return 0.5 * erfc(-x / M_SQRT2); }
double normcdfinv(double y) { return -M_SQRT2 * erfcinv(2 * y); }
double cyl_bessel_i0(double x) { return bessel_i(0, x); }
double cyl_bessel_i1(double x) { return bessel_i(1, x); }
double rhypot(double a, double b) { return 1 / hypot(a, b); }
double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
}
