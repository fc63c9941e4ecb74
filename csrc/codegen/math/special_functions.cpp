#include "codegen/math/special_functions.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace tc::codegen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSqrtPi = 1.77245385090551602730;

// Chebyshev series, fitted with 50 digits: exp(-x) I0(x) and exp(-x) I1(x) / x over [0, 8] in
// x / 4 - 1, and sqrt(x) exp(-x) I(x) over [8, inf) in 16 / x - 1. The first term counts half.
constexpr double kI0Small[] = {
    0.676795274409476085,     -0.304682672343198399,    0.171620901522208775,
    -0.0949010970480476444,   0.0493052842396707085,    -0.0237374148058994688,
    0.0105464603945949983,    -0.00432430999505057594,  0.0016394756169413358,
    -0.000576375574538582366, 0.000188502885095841656,  -0.000057541950100821037,
    0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,
    -2.67079385394061173e-7,  6.04699502254191895e-8,   -1.30002500998624804e-8,
    2.65982372468238665e-9,   -5.18979560163526291e-10, 9.67580903537323691e-11,
    -1.72682629144155571e-11, 2.95505266312963983e-12,  -4.85644678311192946e-13,
    7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15,
    -2.43127984654795469e-16, 3.3307945188222381e-17};

constexpr double kI1Small[] = {
    0.252587186443633655,     -0.176416518357834055,    0.102643658689847095,
    -0.0529459812080949914,   0.0247264490306265168,    -0.0105640848946261982,
    0.00415642294431288816,   -0.00151357245063125315,  0.000512285956168575773,
    -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358,
    3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
    -4.44505912879632808e-8,  9.38153738649577178e-9,   -1.88724975172282929e-9,
    3.62559028155211704e-10,  -6.66348972350202774e-11, 1.17361862988909016e-11,
    -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
    7.60068429473540693e-15,  -1.10559694773538631e-15, 1.55363195773620047e-16,
    -2.11142121435816608e-17, 2.77791411276104637e-18};

constexpr double kI0Large[] = {
    0.804490411014108832,     0.00336911647825569409,   0.0000688975834691682398,
    2.89137052083475648e-6,   2.04891858946906374e-7,   2.26666899049817806e-8,
    3.39623202570838635e-9,   4.94060238822496959e-10,  1.18891471078464383e-11,
    -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13,  3.8527783827421427e-13,   1.54008621752140983e-14,
    -4.15056934728722209e-14, -9.55484669882830765e-15, 3.81168066935262242e-15,
    1.77256013305652638e-15,  -3.42548561967721913e-16, -2.82762398051658348e-16,
    3.46122286769746109e-17,  4.46562142029676e-17,     -4.83050448594418207e-18,
    -7.23318048787475395e-18};

constexpr double kI1Large[] = {
    0.77857623501828012,      -0.00976109749136146841,  -0.000110588938762623716,
    -3.88256480887769039e-6,  -2.51223623787020893e-7,  -2.63146884688951951e-8,
    -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11,
    3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
    4.27244001671195135e-14,  1.04202769841288028e-14,  -3.8144030724370078e-15,
    -1.88035477551078245e-15, 3.30820231092092828e-16,  2.96262899764595014e-16,
    -3.20952592199342396e-17, -4.65030536848935833e-17, 4.41434832307170795e-18,
    7.51729631084210481e-18};

/// Clenshaw's recurrence.
template <size_t Count>
double series(const double (&terms)[Count], double x) {
  double b0 = 0, b1 = 0, b2 = 0;
  for (size_t i = Count; i-- > 0;) {
    b2 = b1;
    b1 = b0;
    b0 = 2 * x * b1 - b2 + terms[i];
  }
  return 0.5 * (b0 - b2);
}

/// exp(x) * value without overflow on the way.
double times_exp(double x, double value) {
  double half = std::exp(0.5 * x);
  return half * value * half;
}

/// exp(x * x), with the digits that the square alone would lose.
double exp_of_square(double x) {
  double square = x * x;
  return std::exp(square) * (1 + std::fma(x, x, -square));
}

/// Halley's step for a function whose derivative is a multiple of exp(-y * y): f is its value over
/// that derivative.
double step(double y, double f) { return y - f / (1 + y * f); }

/// erf(y) = x for |x| <= 1 / 2.
double central_inverse(double x) {
  double y = 0.5 * kSqrtPi * x * (1 + 0.26179938779914943654 * x * x);
  for (int i = 0; i < 3; ++i) y = step(y, (std::erf(y) - x) * 0.5 * kSqrtPi * std::exp(y * y));
  return y;
}

/// erfc(y) = x for 0 < x < 1 / 2, from the approximation 26.2.23 of Abramowitz and Stegun.
double tail_inverse(double x) {
  double t = std::sqrt(-2 * std::log(0.5 * x));
  double y = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  y *= 0.70710678118654752440;
  for (int i = 0; i < 3; ++i) y = step(y, (x - std::erfc(y)) * 0.5 * kSqrtPi * exp_of_square(y));
  return y;
}

/// The modified Bessel functions of the first kind of order 0 and 1.
double cyl_bessel_i0(double x) {
  double a = std::fabs(x);
  if (a <= 8) return times_exp(a, series(kI0Small, 0.25 * a - 1));
  if (std::isinf(a)) return a;
  return times_exp(a, series(kI0Large, 16 / a - 1) / std::sqrt(a));
}

double cyl_bessel_i1(double x) {
  double a = std::fabs(x);
  if (a <= 8) return x * times_exp(a, series(kI1Small, 0.25 * a - 1));
  if (std::isinf(a)) return x;
  return std::copysign(times_exp(a, series(kI1Large, 16 / a - 1) / std::sqrt(a)), x);
}

/// The inverses of erf, of erfc and of the normal distribution's integral; NaN outside their
/// domains.
double erfinv(double x) {
  double a = std::fabs(x);
  if (a <= 0.5) return central_inverse(x);
  if (a == 1) return std::copysign(kInfinity, x);
  return a < 1 ? std::copysign(tail_inverse(1 - a), x) : kNaN;
}

double erfcinv(double x) {
  if (x >= 0.5 && x <= 1.5) return central_inverse(1 - x);
  if (x == 0) return kInfinity;
  if (x == 2) return -kInfinity;
  if (x > 0 && x < 0.5) return tail_inverse(x);
  return x > 1.5 && x < 2 ? -tail_inverse(2 - x) : kNaN;
}

double normcdfinv(double x) { return -1.41421356237309504880 * erfcinv(2 * x); }

/// exp(x * x) * erfc(x).
double erfcx(double x) {
  if (x < -26.7) return kInfinity;
  if (!(x > 25)) return exp_of_square(x) * std::erfc(x);
  // The asymptotic series; seven terms are exact from 25 on.
  double square = 0.5 / (x * x), term = 1, sum = 1;
  for (int k = 1; k <= 7; ++k) {
    term *= -(2 * k - 1) * square;
    sum += term;
  }
  return sum / (kSqrtPi * x);
}

}  // namespace

const SpecialFunction kSpecialFunctions[] = {{"cyl_bessel_i0", cyl_bessel_i0},
                                             {"cyl_bessel_i1", cyl_bessel_i1},
                                             {"erfinv", erfinv},
                                             {"erfcinv", erfcinv},
                                             {"normcdfinv", normcdfinv},
                                             {"erfcx", erfcx}};

}  // namespace tc::codegen
