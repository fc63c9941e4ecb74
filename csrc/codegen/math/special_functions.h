// Functions of CUDA's library that C's has not, for one double; kernels on the CPU call them.
#pragma once

#include <string>

namespace tc::codegen {

/// The modified Bessel functions of the first kind of order 0 and 1.
double cyl_bessel_i0(double x);
double cyl_bessel_i1(double x);
/// The inverses of erf, of erfc and of the normal distribution's integral; NaN outside their
/// domains.
double erfinv(double x);
double erfcinv(double x);
double normcdfinv(double x);
/// exp(x * x) * erfc(x).
double erfcx(double x);

struct SpecialFunction {
  const char* name;  ///< of the builtin
  double (*function)(double);
};
inline constexpr SpecialFunction kSpecialFunctions[] = {{"cyl_bessel_i0", cyl_bessel_i0},
                                                        {"cyl_bessel_i1", cyl_bessel_i1},
                                                        {"erfinv", erfinv},
                                                        {"erfcinv", erfcinv},
                                                        {"normcdfinv", normcdfinv},
                                                        {"erfcx", erfcx}};

/// What generated code calls it.
inline std::string special_function_symbol(const std::string& name) { return "tc_" + name; }

}  // namespace tc::codegen
