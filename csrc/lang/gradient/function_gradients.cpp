#include "lang/gradient/function_gradients.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "lang/sema/builtins.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/parser.h"

namespace tc::lang {
namespace {

/// For each operand x, y, z, w what it receives, where g is what the result r receives. Null: zero.
using Rule = std::vector<ExpressionPtr>;

/// The same as texts, which are empty for zero. Sources: any table of derivatives; those of the
/// gamma function come from its recurrence and Stirling's series (NIST DLMF 5.5.2, 5.11.2).
struct RuleText {
  const char* function;
  std::vector<const char*> operands;
};

std::map<std::string, Rule>* parse_rules(const std::vector<RuleText>& texts) {
  auto* rules = new std::map<std::string, Rule>;
  for (const RuleText& rule : texts) {
    for (const char* text : rule.operands) {
      ExpressionPtr& part = (*rules)[rule.function].emplace_back();
      if (*text)
        part =
            parse_text("def f() -> (q) { q = " + std::string(text) + " }")[0].statements[0].value;
    }
  }
  return rules;
}

// The digamma function at 8 - z, or 8 + z, is found by its asymptotic series, and brought back by
// eight steps; negative arguments are reflected. Sums of quotients only, so that it can be
// differentiated again.
#define TC_SERIES(t)                                                                              \
  "(log(" t ") - 0.5 / (" t ") - 1.0 / (12.0 * (" t ") * (" t ")) + 1.0 / (120.0 * (" t ") * (" t \
  ") * (" t ") * (" t ")) - 1.0 / (252.0 * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t \
  ")) + 1.0 / (240.0 * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t \
  ")) - 1.0 / (132.0 * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t ") * (" t \
  ") * (" t ") * (" t ")))"
#define TC_STEPS(t)                                                        \
  "(1.0 / (" t ") + 1.0 / (" t " + 1.0) + 1.0 / (" t " + 2.0) + 1.0 / (" t \
  " + 3.0) + 1.0"                                                          \
  " / (" t " + 4.0) + 1.0 / (" t " + 5.0) + 1.0 / (" t " + 6.0) + 1.0 / (" t " + 7.0))"
#define TC_DIGAMMA                                                        \
  "(x > 0.0 ? " TC_SERIES("x + 8.0") " - " TC_STEPS("x") " : " TC_SERIES( \
      "9.0 - x") " - " TC_STEPS("1.0 - x") " - 3.14159265358979323846 * cospi(x) / sinpi(x))"

/// The rule for a function or an operator; null where there is none.
const Rule* find_rule(const std::string& function) {
  // Parsed once: this may be asked for on several threads at once.
  static const auto* rules = parse_rules({
      {"abs", {"g * (x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0)"}},
      {"acos", {"-g * rsqrt(1.0 - x * x)"}},
      {"acosh", {"g * rsqrt(x * x - 1.0)"}},
      {"asin", {"g * rsqrt(1.0 - x * x)"}},
      {"asinh", {"g * rsqrt(x * x + 1.0)"}},
      {"atan", {"g / (x * x + 1.0)"}},
      {"atan2",
       {"g * y / (x == 0 && y == 0 ? 1.0 : x * x + y * y)",
        "-g * x / (x == 0 && y == 0 ? 1.0 : x * x + y * y)"}},
      {"atanh", {"g / (1.0 - x * x)"}},
      {"cbrt", {"g / (3.0 * r * r)"}},
      {"ceil", {""}},
      {"copysign", {"g * (x == 0 ? 0.0 : copysign(1.0, x) == copysign(1.0, y) ? 1.0 : -1.0)", ""}},
      {"cos", {"-g * sin(x)"}},
      {"cosh", {"g * sinh(x)"}},
      {"cospi", {"-3.14159265358979323846 * g * sinpi(x)"}},
      {"cyl_bessel_i0", {"g * cyl_bessel_i1(x)"}},
      {"cyl_bessel_i1", {"g * (cyl_bessel_i0(x) - (x == 0 ? 0.5 : cyl_bessel_i1(x) / x))"}},
      {"erf", {"1.12837916709551257390 * g * exp(-x * x)"}},
      {"erfc", {"-1.12837916709551257390 * g * exp(-x * x)"}},
      {"erfcinv", {"-0.88622692545275801365 * g * exp(r * r)"}},
      {"erfcx", {"g * (2.0 * x * r - 1.12837916709551257390)"}},
      {"erfinv", {"0.88622692545275801365 * g * exp(r * r)"}},
      {"exp", {"g * r"}},
      {"exp10", {"2.30258509299404568402 * g * r"}},
      {"exp2", {"0.69314718055994530942 * g * r"}},
      {"expm1", {"g * (r + 1.0)"}},
      {"fabs", {"g * (x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0)"}},
      {"fdim", {"x > y ? g : 0.0", "x > y ? -g : 0.0"}},
      {"fdivide", {"g / y", "-g * (x / y / y)"}},
      {"floor", {""}},
      {"fma", {"g * y", "g * x", "g"}},
      {"fmax", {"x >= y || isnan(y) ? g : 0.0", "x >= y || isnan(y) ? 0.0 : g"}},
      {"fmin", {"x <= y || isnan(y) ? g : 0.0", "x <= y || isnan(y) ? 0.0 : g"}},
      {"fmod", {"g", "-g * trunc(x / y)"}},
      {"hypot", {"g * (x / r)", "g * (y / r)"}},
      {"j0", {"-g * j1(x)"}},
      {"j1", {"g * (j0(x) - (x == 0 ? 0.5 : j1(x) / x))"}},
      {"jn", {"", "0.5 * g * (jn(x - 1, y) - jn(x + 1, y))"}},
      {"ldexp", {"ldexp(g, y)", ""}},
      {"lgamma", {"g * " TC_DIGAMMA}},
      {"log", {"g / x"}},
      {"log10", {"0.43429448190325182765 * g / x"}},
      {"log1p", {"g / (x + 1.0)"}},
      {"log2", {"1.44269504088896340736 * g / x"}},
      {"logb", {""}},
      {"nearbyint", {""}},
      {"norm3d", {"g * (x / r)", "g * (y / r)", "g * (z / r)"}},
      {"norm4d", {"g * (x / r)", "g * (y / r)", "g * (z / r)", "g * (w / r)"}},
      {"normcdf", {"0.39894228040143267794 * g * exp(-0.5 * x * x)"}},
      {"normcdfinv", {"2.50662827463100050242 * g * exp(0.5 * r * r)"}},
      {"pow",
       {"y == 0 ? 0.0 : g * y * pow(x, y - 1.0)", "x == 0 && y >= 0 ? 0.0 : g * r * log(x)"}},
      // By literals, z = y - 1 is one too.
      {"pow to 0", {"0.0", ""}},
      {"pow to 1", {"g", ""}},
      {"pow to 2", {"g * 2.0 * x", ""}},
      {"pow to literal", {"g * y * pow(x, z)", ""}},
      {"pow of literal", {"", "g * r * log(x)"}},  // that is not 0
      {"rcbrt", {"-0.33333333333333333333 * g * r / x"}},
      {"remainder", {"g", "-g * rint(x / y)"}},
      {"rhypot", {"-g * (x * r) * r * r", "-g * (y * r) * r * r"}},
      {"rint", {""}},
      {"rnorm3d", {"-g * (x * r) * r * r", "-g * (y * r) * r * r", "-g * (z * r) * r * r"}},
      {"rnorm4d",
       {"-g * (x * r) * r * r", "-g * (y * r) * r * r", "-g * (z * r) * r * r",
        "-g * (w * r) * r * r"}},
      {"round", {""}},
      {"rsqrt", {"-0.5 * g * r * r * r"}},
      {"saturate", {"x >= 0 && x <= 1 ? g : 0.0"}},
      {"scalbln", {"scalbln(g, y)", ""}},
      {"scalbn", {"scalbn(g, y)", ""}},
      {"sin", {"g * cos(x)"}},
      {"sinh", {"g * cosh(x)"}},
      {"sinpi", {"3.14159265358979323846 * g * cospi(x)"}},
      {"sqrt", {"g / (2.0 * r)"}},
      {"tan", {"g * (r * r + 1.0)"}},
      {"tanh", {"g * (1.0 - r * r)"}},
      {"tgamma", {"g * r * " TC_DIGAMMA}},
      {"trunc", {""}},
      {"y0", {"-g * y1(x)"}},
      {"y1", {"g * (y0(x) - y1(x) / x)"}},
      {"yn", {"", "0.5 * g * (yn(x - 1, y) - yn(x + 1, y))"}},
      // Operators.
      {"+", {"g", "g"}},
      {"-", {"g", "-g"}},
      {"*", {"g * y", "g * x"}},
      // The square of y leaves the type where the quotient does not.
      {"/", {"g / y", "-g * (x / y / y)"}},
      {"%", {"g", "-g * trunc(x / y)"}},
      // g once: it doubled with every extreme inside of another.
      {"min", {"x > y ? 0.0 : g * (x == y ? 0.5 : 1.0)", "y > x ? 0.0 : g * (x == y ? 0.5 : 1.0)"}},
      {"max", {"x < y ? 0.0 : g * (x == y ? 0.5 : 1.0)", "y < x ? 0.0 : g * (x == y ? 0.5 : 1.0)"}},
      {"unary -", {"-g"}},
      {"max with literal", {"r > y ? g : 0.0"}},
      {"min with literal", {"r < y ? g : 0.0"}},
      {"/ with result", {"g / y", "-g * (r / y)"}},
  });
  const auto found = rules->find(function);
  return found == rules->end() ? nullptr : &found->second;
}

bool is_builtin(const Expression& e) {
  return e.kind == ExpressionKind::Apply && e.binding == Binding::Builtin;
}

/// The other operand of a min or max whose operand `k` is a literal; -1 for none.
int operand_beside_literal(const Expression& e) {
  if (!is_binary(e, Operator::Min) && !is_binary(e, Operator::Max) &&
      !(is_builtin(e) && (e.name == "fmin" || e.name == "fmax")))
    return -1;
  for (int k : {0, 1}) {
    if (e.operands[1 - k]->constant && !e.operands[k]->constant) return k;
  }
  return -1;
}

/// The literal exponent of a power; nothing for anything else.
std::optional<double> literal_exponent(const Expression& e) {
  if (!is_builtin(e) || e.name != "pow" || !e.operands[1]->constant) return std::nullopt;
  return e.operands[1]->constant->as_double();
}

std::string rule_name(const Expression& e) {
  if (const auto exponent = literal_exponent(e)) {
    if (*exponent == 0) return "pow to 0";
    if (*exponent == 1) return "pow to 1";
    return *exponent == 2 ? "pow to 2" : "pow to literal";
  }
  if (is_builtin(e) && e.name == "pow" && e.operands[0]->constant &&
      e.operands[0]->constant->as_double() != 0)
    return "pow of literal";
  if (e.kind == ExpressionKind::Unary) return std::string("unary ") + spelling(e.op);
  if (e.kind == ExpressionKind::Binary) return spelling(e.op);
  return e.name;
}

}  // namespace

bool prefers_result(const Expression& e) {
  // A choice has the value of the branch that is taken.
  if (e.kind == ExpressionKind::Ternary)
    return prefers_result(*e.operands[1]) || prefers_result(*e.operands[2]);
  if (operand_beside_literal(e) >= 0) return true;
  const Rule* rule = is_builtin(e) ? find_rule(e.name) : nullptr;
  return rule && std::any_of(rule->begin(), rule->end(), [](const ExpressionPtr& part) {
           return part && mentions(*part, "r");
         });
}

ExpressionPtr operand_gradient(const Expression& e, size_t operand, const ExpressionPtr& gradient,
                               const ExpressionPtr& result) {
  std::map<std::string, ExpressionPtr> names{{"g", gradient}, {"r", result}};
  int kept = operand_beside_literal(e);
  if (kept >= 0) {
    if (operand != static_cast<size_t>(kept)) return nullptr;
    bool largest = e.kind == ExpressionKind::Apply ? e.name == "fmax" : e.op == Operator::Max;
    names["y"] = e.operands[1 - kept];
    return substitute(find_rule(largest ? "max with literal" : "min with literal")->front(), names);
  }
  const bool quotient_is_read = is_binary(e, Operator::Divide) && is_access(*result);
  const Rule* rule = find_rule(quotient_is_read ? "/ with result" : rule_name(e));
  if (!rule) {
    throw LanguageError(e.where, rule_name(e),
                        " has no derivative; give the definition a backward of its own through "
                        "make_autograd(f, backward)");
  }
  const ExpressionPtr& part = (*rule)[operand];
  if (!part) return nullptr;
  const char* operands[] = {"x", "y", "z", "w"};
  const Builtin* builtin = e.kind == ExpressionKind::Apply ? find_builtin(e.name) : nullptr;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    ExpressionPtr& given = names[operands[k]] = e.operands[k];
    if (!builtin) continue;
    // Rules compute with operands in the function's type: a byte would wrap around, a literal would
    // be a float, and the square of a half leaves its type where the function does not.
    const Type& type = given->type;
    if (builtin->integer_argument == static_cast<int>(k)) {
      if (type.is_uint() || type.bits() < 32) given = cast(Halide::Int(32), given);
    } else if (given->constant ? type.is_int_or_uint() || e.type.bits() > 32 : type != e.type) {
      given = cast(e.type, given);
    }
  }
  if (const auto exponent = literal_exponent(e)) {
    const ExpressionPtr less = real(*exponent - 1);
    names["z"] = e.type.bits() > 32 ? cast(e.type, less) : less;
  }
  return substitute(part, names);
}

}  // namespace tc::lang
