#include "lang/syntax/instead.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace tc::lang {
namespace {

/// Several spellings, in lower case and between blanks, and one expression.
struct Formula {
  const char* names;
  const char* expression;
  const char* file = "";  ///< of the library of definitions, where it has more
};

constexpr Formula kFunctions[] = {
    {" relu ", "x > 0 ? x : 0", "relu"},
    {" relu6 ", "x > 0 ? (x < 6 ? x : 6) : 0", "relu6"},
    {" leaky_relu leakyrelu ", "x > 0 ? x : slope * x", "leaky_relu"},
    {" elu ", "x > 0 ? x : alpha * expm1(x)", "elu"},
    {" gelu ", "0.5 * x * (1 + erf(x * 0.70710678118654752))", "gelu"},
    {" sigmoid logistic expit ", "1 / (1 + exp(-x))", "sigmoid"},
    {" silu swish ", "x / (1 + exp(-x))", "silu"},
    {" softplus ", "(x > 0 ? x : 0) + log1p(exp(-fabs(x)))", "softplus"},
    {" hardtanh ", "x > -1 ? (x < 1 ? x : 1) : -1", "hardtanh"},
    {" clamp clip ", "min(max(x, low), high)"},
    {" minimum ", "min(x, y)"},
    {" maximum ", "max(x, y)"},
    {" square ", "x * x"},
    {" sign sgn ", "x > 0 ? 1 : x < 0 ? -1 : 0"},
    {" reciprocal recip inv ", "1 / x"},
    {" power ", "pow(x, y)"},
    {" ln ", "log(x)"},
    {" mod ", "fmod(x, y), or x % y of integers"},
    {" where select ifelse if ", "condition ? x : y"},
    {" not ", "!x"},
    {" xor ", "x != y of bools"},
    {" and ", "x && y"},
    {" or ", "x || y"},
    {" cast astype uint8_t int32_t int64_t size_t ", "float(x), int32(x) and so on"},
    {" len size shape ", "A.0 for the size of dimension 0 of A, or its name in the signature"},
};

/// What takes statements. "; a softmax is ..."
constexpr Formula kStatements[] = {
    {" sum ", "a reduction is a statement: S(i) +=! A(i, k)"},
    {" prod product ", "a reduction is a statement: S(i) *=! A(i, k)"},
    {" amin ", "a reduction is a statement: S(i) min=! A(i, k)"},
    {" amax ", "a reduction is a statement: S(i) max=! A(i, k)"},
    {" all ", "a reduction is a statement: S(i) &&=! A(i, k)"},
    {" any ", "a reduction is a statement: S(i) ||=! A(i, k)"},
    {" argmin ", "a reduction is a statement: S(i) argmin=! A(i, k)"},
    {" argmax ", "a reduction is a statement: S(i) argmax=! A(i, k)"},
    {" mean avg average ",
     "a mean is a sum over its size: S(i) +=! A(i, k) and then M(i) = S(i) / K"},
    {" norm ",
     "a norm is the root of a sum: S(i) +=! A(i, k) * A(i, k) and then R(i) = sqrt(S(i))"},
    {" dot matmul mm ", "a product is a sum: C(i, j) +=! A(i, k) * B(k, j)", "matmul"},
    {" cumsum ", "a sum up to an index has a condition: S(i) +=! j <= i ? A(j) : 0 where i in 0:N",
     "cumulative_sum"},
    {" softmax ", "it takes several statements", "softmax"},
    {" log_softmax logsoftmax ", "it takes several statements", "log_softmax"},
    {" logsumexp log_sum_exp ", "it takes several statements", "logsumexp"},
    {" layer_norm layernorm ", "it takes several statements", "layer_normalization"},
    {" batch_norm batchnorm ", "it takes several statements", "batch_normalization"},
};

constexpr Formula kConstants[] = {
    {" inf infinity huge_val huge_valf ", "1.0 / 0.0"},
    {" nan ", "0.0 / 0.0"},
    {" flt_max ", "3.4028235e38"},
    {" flt_min ", "1.17549435e-38"},
    {" flt_epsilon ", "1.1920929e-7"},
    {" dbl_max ", "1.7976931348623157e308"},
    {" dbl_min ", "2.2250738585072014e-308"},
    {" dbl_epsilon ", "2.220446049250313e-16"},
    {" int_max int32_max ", "2147483647"},
    {" int_min int32_min ", "-2147483647 - 1"},
    {" pi m_pi ", "3.14159265358979324"},
    {" m_e ", "2.71828182845904524"},
    {" none null nullptr nil ", "0.0 / 0.0 for what is missing, which isnan finds"},
};

/// Words in front of an expression or a name, or between two.
constexpr Formula kWords[] = {
    {" and ", "'and' is no operator; write &&"},
    {" or ", "'or' is no operator; write ||"},
    {" not ", "'not' is no operator; write !"},
    {" is ", "'is' is no operator; write =="},
    {" in ", "'in' is no operator; that i is in a range is a <= i && i < b"},
    {" if ",
     "there are no statements with 'if'; a choice is an expression: B(i) = A(i) > 0 ? A(i) : 0"},
    {" for ",
     "there are no statements with 'for'; loops follow from the subscripts, as in B(i) = A(i)"},
    {" while ",
     "there are no statements with 'while'; loops follow from the subscripts, as in B(i) = A(i)"},
    {" return ",
     "there are no statements with 'return'; results are named in the signature: -> (A)"},
    {" lambda ",
     "there are no functions of expressions; name a value in a where clause: "
     "B(i) = x * x where x = A(i)"},
    {" let var auto const ", "an assignment has no word before it: s = A(0)"},
};

/// Symbols of several tokens. A hint follows what was expected and found.
constexpr Formula kSpellings[] = {
    {" -= ", "; subtract by +=: O(i) += -A(i)"},
    {" /= ", "; divide by *=: O(i) *= 1 / A(i)"},
    {" **= ^= ", "; a power is O(i) = pow(A(i), y)"},
    {" := <- ", "; an assignment is written as ="},
    {" >> ", "; of an integer from 0 on, x >> 2 is x / 4"},
    {" << ", "; x << 2 is x * 4"},
    {" <> === !== ", "; comparisons are ==, !=, <, <=, > and >="},
    {" ++ -- ", "; add 1 by x + 1"},
};

/// Behind a dot, where only the number of a dimension stands.
constexpr Formula kMembers[] = {
    {" t mt transpose ", "; a transpose exchanges subscripts: X(j, i)"},
    {" shape size sizes ", "; write X.0 for the size of dimension 0"},
    {" ndim dim dtype ", "; it stands in the signature"},
};

template <size_t count>
const Formula* find_exact(const Formula (&formulas)[count], const std::string& name) {
  for (const Formula& formula : formulas)
    if (std::string(formula.names).find(" " + name + " ") != std::string::npos) return &formula;
  return nullptr;
}

/// In any case of letters.
template <size_t count>
const Formula* find(const Formula (&formulas)[count], const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return find_exact(formulas, lower);
}

std::string library(const Formula& formula) {
  if (!*formula.file) return "";
  return concat(". The library has a definition: tensor_comprehensions.ops.load(\"", formula.file,
                "\")");
}

}  // namespace

std::string function_instead(const std::string& name, const std::string& otherwise) {
  if (const Formula* formula = find(kFunctions, name))
    return concat("; write ", formula->expression, library(*formula));
  if (const Formula* formula = find(kStatements, name))
    return concat("; ", formula->expression, library(*formula));
  return otherwise;
}

std::string constant_instead(const std::string& name, const std::string& otherwise) {
  if (name == "True" || name == "False")
    return concat("; write ", name == "True" ? "true" : "false");
  const Formula* formula = find(kConstants, name);
  return formula ? concat("; write ", formula->expression) : otherwise;
}

std::string word_instead(const std::string& word) {
  if (find_exact(kWords, word)) return find_exact(kWords, word)->expression;
  return "";
}

std::string symbol_instead(const std::string& symbol) {
  const Formula* formula = find_exact(kSpellings, symbol);
  return formula ? formula->expression : "";
}

std::string member_instead(const std::string& name) {
  if (const Formula* formula = find(kMembers, name)) return formula->expression;
  return function_instead(name, "; functions stand before what they are applied to: exp(x)");
}

std::string reduction_instead(const std::string& word) {
  return function_instead(word == "and" ? "all" : word == "or" ? "any" : word, "");
}

}  // namespace tc::lang
