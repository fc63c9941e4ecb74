#include "lang/sema/builtins.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "ir/program.h"

namespace tc::lang {
namespace {

constexpr BuiltinResult kSame = BuiltinResult::Same, kBool = BuiltinResult::Bool,
                        kInt32 = BuiltinResult::Int32, kInt64 = BuiltinResult::Int64;

constexpr Builtin kBuiltins[] = {
    {"abs", 1, kSame, false, -1, true},
    {"acos", 1},
    {"acosh", 1},
    {"asin", 1},
    {"asinh", 1},
    {"atan", 1},
    {"atan2", 2},
    {"atanh", 1},
    {"cbrt", 1},
    {"ceil", 1},
    {"copysign", 2},
    {"cos", 1},
    {"cosh", 1},
    {"erf", 1},
    {"erfc", 1},
    {"exp", 1},
    {"exp10", 1},
    {"exp2", 1},
    {"expm1", 1},
    {"fabs", 1},
    {"fdim", 2},
    {"floor", 1},
    {"fma", 3},
    {"fmax", 2},
    {"fmin", 2},
    {"fmod", 2},
    {"hypot", 2},
    {"ilogb", 1, kInt32, true},
    {"isfinite", 1, kBool, true},
    {"isinf", 1, kBool},
    {"isnan", 1, kBool},
    {"j0", 1},
    {"j1", 1},
    {"jn", 2, kSame, false, 0},
    {"ldexp", 2, kSame, true, 1},
    {"lgamma", 1},
    {"llrint", 1, kInt64, true},
    {"llround", 1, kInt64, true},
    {"log", 1},
    {"log10", 1},
    {"log1p", 1},
    {"log2", 1},
    {"logb", 1},
    {"lrint", 1, kInt64, true},
    {"lround", 1, kInt64, true},
    {"nearbyint", 1, kSame, true},
    {"nextafter", 2},
    {"pow", 2},
    {"remainder", 2},
    {"rint", 1},
    {"round", 1},
    {"rsqrt", 1},
    {"scalbln", 2, kSame, true, 1},
    {"scalbn", 2, kSame, true, 1},
    {"signbit", 1, kBool, true},
    {"sin", 1},
    {"sinh", 1},
    {"sqrt", 1},
    {"tan", 1},
    {"tanh", 1},
    {"tgamma", 1},
    {"trunc", 1},
    {"y0", 1},
    {"y1", 1},
    {"yn", 2, kSame, false, 0},
    // Names of CUDA's library that C's has not.
    {"cospi", 1, kSame, true},
    {"cyl_bessel_i0", 1},
    {"cyl_bessel_i1", 1},
    {"erfcinv", 1},
    {"erfcx", 1},
    {"erfinv", 1},
    {"fdivide", 2, kSame, true},
    {"norm3d", 3, kSame, true},
    {"norm4d", 4, kSame, true},
    {"normcdf", 1, kSame, true},
    {"normcdfinv", 1},
    {"rcbrt", 1, kSame, true},
    {"rhypot", 2, kSame, true},
    {"rnorm3d", 3, kSame, true},
    {"rnorm4d", 4, kSame, true},
    {"saturate", 1, kSame, true},
    {"sinpi", 1, kSame, true},
};

using Halide::Internal::make_const;
using ir::Expr;

/// A float's bits as a signed integer, of half and bfloat16 those of the same float.
Expr float_bits(const Expr& x) {
  Halide::Type wide = Halide::Float(std::max(32, x.type().bits()));
  return Halide::reinterpret(Halide::Int(wide.bits()), x.type() == wide ? x : cast(wide, x));
}

/// The bits of infinity.
Expr infinity_bits(Halide::Type bits) {
  return make_const(bits, bits.bits() == 32 ? int64_t{0x7f800000} : int64_t{0x7ff0000000000000});
}

/// x * 2^n, rounded once: the exponent is brought into range by steps, those downwards so short
/// that no step before the last can leave the normal numbers.
Expr scale(const Expr& x, const Expr& n) {
  Halide::Type type = x.type();
  if (type.bits() < 32) return cast(type, scale(Halide::cast<float>(x), n));
  bool single = type.bits() == 32;
  int bias = single ? 127 : 1023, mantissa = single ? 23 : 52;
  int down = bias - 2 - mantissa;
  Halide::Type integer = Halide::Int(type.bits());
  auto power = [&](const Expr& e) {
    Expr biased = cast(integer, e + bias);
    return Halide::reinterpret(type, biased * make_const(integer, int64_t{1} << mantissa));
  };
  // Exponents are read as seldom as possible: each may be a long expression.
  const Expr near = clamp(n, -4 * bias, 4 * bias);
  Expr value = x, rest = near;
  for (int step = 0; step < 2; ++step) {
    const Expr up = near > bias * (step + 1), low = near < 1 - bias - down * step;
    value = value * select(up, power(bias), low, power(-down), make_const(type, 1));
    rest = rest - select(up, make_const(n.type(), bias), low, make_const(n.type(), -down),
                         make_const(n.type(), 0));
  }
  return value * power(clamp(rest, 1 - bias, bias));
}

/// C's ilogb, with the limits that its library and CUDA's give for what has no exponent.
Expr exponent(const Expr& x) {
  Halide::Type type = x.type();
  Expr magnitude = float_bits(x) & Halide::Int(std::max(32, type.bits())).max();
  Expr infinity = infinity_bits(magnitude.type());
  Halide::Type integer = Halide::Int(32);
  return select(magnitude == infinity, integer.max(), magnitude > infinity || magnitude == 0,
                integer.min(), cast(integer, ir::math("logb", type, {x})));
}

}  // namespace

const Builtin* find_builtin(const std::string& spelling) {
  std::string_view base = spelling;
  if (base.size() > 1 && base.back() == 'f') base.remove_suffix(1);
  for (const Builtin& builtin : kBuiltins) {
    const bool has_versions = builtin.result != kBool && spelling != "absf";
    if (spelling == builtin.name || (has_versions && base == builtin.name)) return &builtin;
  }
  return nullptr;
}

std::vector<std::string> all_builtin_names() {
  std::vector<std::string> names;
  for (const Builtin& builtin : kBuiltins) names.push_back(builtin.name);
  return names;
}

ir::Expr composed_builtin(const std::string& name, const std::vector<ir::Expr>& x) {
  Halide::Type type = x[0].type();
  auto constant = [&](double value) { return make_const(type, value); };
  auto call = [&](const char* function, const std::vector<Expr>& arguments) {
    return ir::math(function, type, arguments);
  };
  // Squares of what is large or small leave the type long before the length does.
  auto norm = [&] {
    Expr length = x[0];
    for (size_t i = 1; i < x.size(); ++i) length = call("hypot", {length, x[i]});
    return length;
  };
  if (name == "fdivide") return x[0] / x[1];
  if (name == "rcbrt") return constant(1) / call("cbrt", x);
  if (name == "rhypot") return constant(1) / call("hypot", x);
  if (name == "norm3d" || name == "norm4d") return norm();
  if (name == "rnorm3d" || name == "rnorm4d") return constant(1) / norm();
  if (name == "normcdf")
    return constant(0.5) * call("erfc", {x[0] * constant(-0.70710678118654752440)});
  if (name == "sinpi" || name == "cospi") {
    // The period is taken off before the multiplication by pi, which would round it away.
    Expr turn = x[0] - constant(2) * call("rint", {x[0] * constant(0.5)});
    // And what is left is brought to where the sine rises, so that it is 0 where it should be.
    Expr size = call("fabs", {turn}), pi = constant(3.14159265358979323846);
    if (name == "cospi") return call("sin", {(constant(0.5) - size) * pi});
    Expr rising = Halide::select(size > constant(0.5), constant(1) - size, size);
    return call("sin", {call("copysign", {rising, turn}) * pi});
  }
  if (name == "ldexp" || name == "scalbn" || name == "scalbln") return scale(x[0], x[1]);
  if (name == "ilogb") return exponent(x[0]);
  if (name == "nearbyint") return call("rint", x);
  if (name == "lrint" || name == "llrint") return Halide::cast<int64_t>(call("rint", x));
  if (name == "lround" || name == "llround") return Halide::cast<int64_t>(call("round", x));
  if (name == "saturate") return call("fmin", {call("fmax", {x[0], constant(0)}), constant(1)});
  if (name == "signbit" || name == "isfinite") {
    Expr bits = float_bits(x[0]);
    Expr zero = make_const(bits.type(), 0);
    return name == "signbit" ? bits < zero
                             : (bits & bits.type().max()) < infinity_bits(bits.type());
  }
  TC_INTERNAL_CHECK(false, name, " is not composed of other builtins");
  return Expr();
}

}  // namespace tc::lang
