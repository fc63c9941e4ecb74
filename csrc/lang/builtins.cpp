#include "lang/builtins.h"

#include "base/error.h"
#include "ir/program.h"

namespace tc::lang {
namespace {

constexpr Builtin kBuiltins[] = {
    {"abs", 1, true},
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
    {"isinf", 1, false, true},
    {"isnan", 1, false, true},
    {"j0", 1},
    {"j1", 1},
    {"lgamma", 1},
    {"log", 1},
    {"log10", 1},
    {"log1p", 1},
    {"log2", 1},
    {"logb", 1},
    {"nextafter", 2},
    {"pow", 2},
    {"remainder", 2},
    {"rint", 1},
    {"round", 1},
    {"rsqrt", 1},
    {"sin", 1},
    {"sinh", 1},
    {"sqrt", 1},
    {"tan", 1},
    {"tanh", 1},
    {"tgamma", 1},
    {"trunc", 1},
    {"y0", 1},
    {"y1", 1},
    // Names of CUDA's library that C's has not.
    {"cospi", 1, false, false, true},
    {"fdivide", 2, false, false, true},
    {"norm3d", 3, false, false, true},
    {"norm4d", 4, false, false, true},
    {"normcdf", 1, false, false, true},
    {"rcbrt", 1, false, false, true},
    {"rhypot", 2, false, false, true},
    {"rnorm3d", 3, false, false, true},
    {"rnorm4d", 4, false, false, true},
    {"sinpi", 1, false, false, true},
};

const Builtin* find_exact(const std::string& name) {
  for (const Builtin& builtin : kBuiltins) {
    if (name == builtin.name) return &builtin;
  }
  return nullptr;
}

}  // namespace

const Builtin* find_builtin(const std::string& spelling) {
  if (const Builtin* builtin = find_exact(spelling)) return builtin;
  if (spelling.size() > 1 && spelling.back() == 'f') {
    const Builtin* builtin = find_exact(spelling.substr(0, spelling.size() - 1));
    if (builtin && !builtin->predicate && spelling != "absf") return builtin;
  }
  return nullptr;
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  for (const Builtin& builtin : kBuiltins) {
    if (!builtin.composed) names.push_back(builtin.name);
  }
  return names;
}

std::vector<std::string> all_builtin_names() {
  std::vector<std::string> names;
  for (const Builtin& builtin : kBuiltins) names.push_back(builtin.name);
  return names;
}

ir::Expr composed_builtin(const std::string& name, const std::vector<ir::Expr>& x) {
  using Halide::Internal::make_const;
  using ir::Expr;
  Halide::Type type = x[0].type();
  auto constant = [&](double value) { return make_const(type, value); };
  auto call = [&](const char* function, const std::vector<Expr>& arguments) {
    return ir::math(function, type, arguments);
  };
  auto norm = [&] {
    Expr sum = x[0] * x[0];
    for (size_t i = 1; i < x.size(); ++i) sum = sum + x[i] * x[i];
    return sum;
  };
  if (name == "fdivide") return x[0] / x[1];
  if (name == "rcbrt") return constant(1) / call("cbrt", x);
  if (name == "rhypot") return constant(1) / call("hypot", x);
  if (name == "norm3d" || name == "norm4d") return call("sqrt", {norm()});
  if (name == "rnorm3d" || name == "rnorm4d") return call("rsqrt", {norm()});
  if (name == "normcdf") {
    return constant(0.5) * call("erfc", {x[0] * constant(-0.70710678118654752440)});
  }
  if (name == "sinpi" || name == "cospi") {
    // The period is taken off before the multiplication by pi, which would round it away.
    Expr turn = x[0] - constant(2) * call("rint", {x[0] * constant(0.5)});
    Expr angle = turn * constant(3.14159265358979323846);
    return call(name == "sinpi" ? "sin" : "cos", {angle});
  }
  TC_INTERNAL_CHECK(false, name, " is not composed of other builtins");
  return Expr();
}

}  // namespace tc::lang
