// The frontend: which texts are taken, which are refused and where, the types found, and the text
// that is printed back.
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "ir/expressions/simplify.h"
#include "lang/sema/builtins.h"
#include "texts.h"

namespace {

using namespace texts;

// ---- texts that are taken, from the papers

void test_accepted() {
  for (const std::string& text : kAccepted) {
    try {
      std::shared_ptr<const Definition> first = define(text);
      std::shared_ptr<const Definition> second = define(first->text);
      CHECK_EQ(first->text, second->text);
      CHECK_EQ(first->key, second->key);
      CHECK(!to_string(tc::lang::infer_ranges(*second, {})).empty());
    } catch (const tc::Error& error) {
      CHECK_EQ(text, std::string(error.what()));
    }
  }
}

// ---- texts that are refused

struct Rejected {
  const char* text;
  const char* message;
  int line, column;
};

const Rejected kRejected[] = {
    {"def conv1d(float(M) I, float(N) K) -> (O) {\n  O(i) = K(x) * I(i + x)\n}",
     "but does not specify a reduction. To sum over x write O(i) +=!", 2, 12},
    {"def dconv(float(N,F,H,W) I, float(F,GCI,KH,KW) W1, float(M) B) -> (O) {\n"
     "O(n,o,h,w) +=! I(n,gci, h + kh, w + kw) *\nW1(gci % grp, o / grp, gci / grp, kh, kw)\n}",
     "undefined variable grp used here", 3, 10},
    {"def p(float(N) I) -> (C1, C2) {\n  (C1,C2) = 2LUT(I)\n}",
     "attempting to access undefined function 2LUT", 2, 13},
    {"def f(float(N) A) -> (O) { O(i) = B(i) }", "undefined variable B used here", 1, 35},
    {"def f(float(N) alpha) -> (O) { O(i) = alhpa(i) }", "did you mean alpha?", 1, 39},
    {"def f(float alpha, float(N) A) -> (O) { O(i) = alhpa * A(i) }", "did you mean alpha?", 1, 48},
    {"def f(float(N) A) -> (O) { O(i) = sqr(A(i)) }", "did you mean sqrt?", 1, 35},
    {"def f(flaot(N) A) -> (O) { O(i) = A(i) }", "did you mean float?", 1, 7},
    {"def f(float(N) A) -> (O, P) { O(i) = A(i) }", "undefined variable P used here", 1, 26},
    {"def f(float(N) A) -> (A) { A(i) = 1 }", "TC inputs are immutable", 1, 28},
    {"def f(float(N) A) -> (O) { A(i) = A(i) + 42 O(i) = A(i) }", "TC inputs are immutable", 1, 28},
    {"def f(float(N) A, float(N) A) -> (O) { O(i) = A(i) }", "A already defined", 1, 28},
    {"def f(float(N) A) -> (O, O) { O(i) = A(i) }", "O already defined", 1, 26},
    {"def f(float(N) A) -> (O) { O(N) = A(N) }", "N already defined as a size", 1, 30},
    {"def f(float(N,N) A) -> (O) { O(i,i) = A(i,i) }", "i already defined", 1, 34},
    {"def f(float(N) A) -> (O) { O(i) = A(i) where A in 0:3 }", "A already defined", 1, 46},
    {"def f(float(N) A) -> (O) { O(i) = x where x = A(i), x = 2 }", "x already defined", 1, 53},
    {"def f(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) { B(i) = A(i) }",
     "f already defined in this text", 2, 5},
    {"def f(float(N) exp) -> (O) { O(i) = exp(i) }", "built-in function and cannot be redefined", 1,
     16},
    {"def f(float(N) A) -> (O) { O(0) = A(i) }", "has plain indices, but found '0'", 1, 30},
    {"def f(float(N) A) -> (O) { O(i + 1) = A(i) }", "two points may meet in one place", 1, 30},
    {"def f(float(N) A) -> (O) { O(i + 1) += A(i) }", "the size of dimension 0 of O", 1, 30},
    {"def f(float(N) A) -> (O) { O(i) = A(i, i) }", "expected 1 dimension but found 2", 1, 35},
    {"def f(float(N) A) -> (O) { O(i) = A(i) O(i,j) = A(i) * A(j) }",
     "expected 1 dimension but found 2 dimensions: O", 1, 40},
    {"def f(float(N) A) -> (O) { O(i) = A(i + .5) }", "expected integral type but found float", 1,
     37},
    {"def f(float(N) A) -> (O) { O(i) = A(i) ? 1 : 2 }", "write A(i) != 0", 1, 35},
    {"def f(int32(N) A) -> (O) { O(i) = !A(i) ? 1 : 2 }", "expected boolean but found int32", 1,
     36},
    {"def f(float(N) A) -> (O) { O(i) = fmax(A(i)) }", "fmax expected 2 arguments but found 1", 1,
     35},
    {"def f(float(N) A) -> (O) { O(i) = max(A(i), 1, 2) }", "max takes 2 arguments, not 3", 1, 35},
    {"def f(double(N) A) -> (float(N) O) { O(i) = A(i) }",
     "attempting to assign type double to "
     "narrower type float",
     1, 45},
    {"def f(double(N) A) -> (float O) { O(i) = float(A(i)) }",
     "defined with 1 dimension but declared as an output with 0", 1, 24},
    {"def f(float(N) A) -> (float(4) O) { O(i) = A(i) where i in 0:3 }",
     "dimension 0 of O is declared as 4 but its index takes 3 values", 1, 29},
    {"def f(uint8(N) A) -> (O) { O(i) = A(i) * 300 }", "300 does not fit uint8", 1, 42},
    {"def f(uint8(N) A) -> (O) { O(i) = A(i) > -1 ? 1 : 0 }", "-1 does not fit uint8", 1, 42},
    {"def f(int32(N) A) -> (O) { O(i) = A(i) / 0 }", "integer division by zero", 1, 35},
    {"def f() -> (O) { O(i, j) = 3 }",
     "Could not infer ranges for free variables. Use a where "
     "clause to give i and j their ranges",
     1, 18},
    {"def f(float(N,M) A) -> (O) { O(i, j) = A(10 + i - j, i + j) }",
     "Could not infer ranges for free variables. Use a where clause", 1, 30},
    {"def f(float(B) A, int32(1) S) -> (O) { O(i) = A(S(0) * i) }", "Could not infer ranges", 1,
     40},
    {"def f() -> (O) { O(i) = 3 where i in 8:4 }", "Inferred an empty range for variable i", 1, 20},
    {"def f(float(N) A) -> (O) { O(i) = 3 where i in 0:A(0) }", "cannot read tensors", 1, 50},
    {"def f(float(N) A) -> (O) { O(i,j) = A(i) where j in 0:i }", "cannot depend on index i", 1,
     55},
    {"def f(float(N) A) -> (O) { O(i) = A(i) * A.1 }", "A has no dimension 1", 1, 42},
    {"def f(float(N) A) -> (O) { O(i) = T(i) T(i) = A(i) }", "undefined variable T used here", 1,
     35},
    {"def f(float(N) A) -> (O) { T(i) += A(i) O(i) = T(i) }", "read before it is assigned", 1, 28},
    {"def f(float(N) A) -> (O) { O(i) = A(i }", "expected ')' or ',' in a list but found '}'", 1,
     39},
    {"def f(float(N) A) -> (O) { O(i) - A(i) }", "expected '=', '+='", 1, 33},
    {"def f(float(N) A) -> (O) { O(i) = A(i)", "the end of the text", 1, 39},
    {"def f(float(N) A) -> (O) { O(i) = A(i) $ }", "'$' starts no token", 1, 40},
    // Bytes that are no UTF-8: Latin-1, too long a form, half of a surrogate pair, cut off.
    {"def f(float(N) A) -> (O) { O(i) = \xe9(i) }", "'\\xe9' starts no token", 1, 35},
    {"def f(float(N) A) -> (O) { O(i) = \xc0\xaf }", "'\\xc0' starts no token", 1, 35},
    {"def f(float(N) A) -> (O) { O(i) = \xed\xa0\x80 }", "'\\xed' starts no token", 1, 35},
    {"def f(float(N) A) -> (O) { O(i) = A(i) }\xe2\x88", "'\\xe2' starts no token", 1, 41},
    {"", "holds no definition", 1, 1},
    {"def f(float(N) A) -> (O) { O(i) = A(i) where i of 0:3 }", "expected 'in' or '='", 1, 48},
    {"def f(float(N) A) -> (O) { O(i) = 99999999999999999999 }", "does not fit 64 bits", 1, 35},
    {"def g(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (O) { O = g(A, A) }",
     "g expected 1 input but found 2 inputs", 2, 28},
    {"def f(float(N) A) -> (O) { O = f(A) }", "a definition cannot call itself", 1, 32},
};

void test_rejected() {
  for (const Rejected& expected : kRejected) {
    try {
      tc::lang::parse(expected.text);
      CHECK_EQ(std::string(expected.text), "should have been refused");
    } catch (const tc::LanguageError& error) {
      CHECK_HAS(error.what(), expected.message);
      CHECK_EQ(error.line(), expected.line);
      if (error.column() != expected.column) {
        CHECK_EQ(std::string(error.what()), std::to_string(expected.column));
      }
    } catch (const std::exception& error) {
      CHECK_EQ(std::string(expected.text), std::string(error.what()));
    }
  }
  std::string deep(5000, '('), chain = "A(i)";
  for (int i = 0; i < 5000; ++i) chain += " + A(i)";
  for (const std::string& value : {deep, chain, std::string(5000, '-')}) {
    try {
      tc::lang::parse("def f(float(N) A) -> (O) { O(i) = " + value + " }");
      CHECK(false);
    } catch (const tc::LanguageError& error) {
      CHECK_HAS(error.what(), "levels deep");
    }
  }
}

/// Short texts that stand for something huge: lets, calls and divisions that multiply.
void test_expansions() {
  auto repeated = [](const char* before, const char* after, int count) {
    std::string text = "i";
    for (int n = 0; n < count; ++n) text = before + text + after;
    return text;
  };
  std::string lets = "x0 = A(i)", deep = lets, definitions, scaled;
  std::string more = repeated("", " + 1", 100).substr(1);
  for (int n = 1; n < 60; ++n) {
    std::string last = "x" + std::to_string(n - 1), next = ", x" + std::to_string(n) + " = " + last;
    lets += next + " * " + last;
    deep += next + more;
    std::string name = "d" + std::to_string(n), callee = "d" + std::to_string(n - 1);
    definitions += "def " + name + "(float(N) A) -> (O) {\n  T = " + callee +
                   "(A)\n  O = " + callee + "(T)\n}\n";
    scaled += "def " + name + "(float s, float(N) A) -> (O) {\n  O = " + callee + "(s * s, A)\n}\n";
  }
  auto value = [](const std::string& text) {
    return "def f(int32(N) A) -> (O) { O(i) = " + text + " where i in 0:N }";
  };
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"def f(float(N) A) -> (O) { O(i) = x59 where " + lets + " }", "more than 10000 operations"},
      {"def f(float(N) A) -> (O) { O(i) = 0 where exists x59, " + lets + " }",
       "more than 10000 operations"},
      {"def f(float(N) A) -> (O) { O(i) = x59 where " + deep + " }", "1000 levels deep"},
      {"def d0(float(N) A) -> (O) { O(i) = A(i) }\n" + definitions,
       "d10 has more than 512; split it"},
      {"def d0(float s, float(N) A) -> (O) { O(i) = A(i) * s * s }\n" + scaled,
       "more than 10000 operations"},
      {value(repeated("(A(i) + ", ") / 2", 60)), "more than 10000 operations"},
      {value(repeated("(", " + 1) % 3", 60)), "more than 10000 operations"},
      {value(repeated("A((", " + 1) / 2)", 60)), "more than 10000 operations"},
      {value(repeated("abs(", ")", 60)), "more than 10000 operations"},
      {value(repeated("A(i) % (", ")", 60)), "more than 10000 operations"},
  };
  for (const Case& c : cases) {
    try {
      tc::lang::parse(c.text);
      CHECK_EQ(c.text, "should have been refused");
    } catch (const tc::LanguageError& error) {
      CHECK_HAS(error.what(), c.message);
      CHECK(error.line() > 0);
    }
  }
  // As many of them as make sense.
  CHECK(!define(value(repeated("(", " + 1) / 2", 8)))->text.empty());
  CHECK(!define(value(repeated("(", " + 1) % 3", 4)))->text.empty());
  std::string floats = "def f(float(N) A) -> (O) { O(i) = A(i)";
  for (int n = 0; n < 500; ++n) floats += " / A(i)";
  CHECK(!define(floats + " }")->text.empty());
}

// ---- types and roles

void test_types() {
  struct Case {
    const char* value;
    const char* type;
  };
  const Case cases[] = {
      {"u8(i) + u8(i)", "uint8"},
      {"u8(i) + 1", "uint8"},
      {"u8(i) + 0.5", "float"},
      {"u8(i) + i8(i)", "int16"},
      {"u32(i) + i32(i)", "int64"},
      {"h(i) * 0.5", "half"},
      {"h(i) + f(i)", "float"},
      {"h(i) + bf(i)", "float"},
      {"d(i) * 1e-5", "double"},
      {"i32(i) * d(i)", "double"},
      {"i32(i) / 2", "int32"},
      {"exp(i32(i))", "float"},
      {"exp(d(i))", "double"},
      {"exp(h(i))", "half"},
      {"pow(d(i), 2)", "double"},
      {"abs(i32(i))", "int32"},
      {"fabs(i32(i))", "float"},
      {"f(i) > 0", "bool"},
      {"f(i) > 0 ? 1 : 2", "int32"},
      {"f(i) > 0 ? 1 : 0.5", "float"},
      {"b(i) + b(i)", "int32"},
      {"min(b(i), b(i))", "bool"},
      {"int64(f(i))", "int64"},
      {"f(i) / N", "float"},
      {"i", "int32"},
      {"isnan(d(i))", "bool"},
      {"max(h(i), 0)", "half"},
      {"h(i) * (b(i) ? 1 : 0.5)", "half"},
      {"u8(i) * i", "int32"},
      {"-b(i)", "int32"},
  };
  for (const Case& c : cases) {
    try {
      Program program = infer(
          std::string("def t(uint8(N) u8, int8(N) i8, uint32(N) u32, int32(N) i32, half(N) h, "
                      "bfloat16(N) bf, float(N) f, double(N) d, bool(N) b) -> (O) { O(i) = ") +
          c.value + " where i in 0:N }");
      if (type_of(program, "O") != c.type) CHECK_EQ(std::string(c.value), type_of(program, "O"));
      CHECK_EQ(type_of(program, "O"), c.type);
      CHECK(program.statements[0].value.type() == program.tensor("O").type);
    } catch (const tc::Error& error) {
      CHECK_EQ(std::string(c.value), std::string(error.what()));
    }
  }
  // A literal first assignment waits for the statement that knows.
  const char* zero = "def f(double(N) A) -> (O, P) { O(i) = 0 P(i) = O(i) O(i) += A(i) }";
  CHECK_EQ(type_of(infer(zero), "O"), "double");
  CHECK_EQ(type_of(infer("def f() -> (O) { O(i) = 0 where i in 0:3 }"), "O"), "int32");
  CHECK_EQ(type_of(infer("def f(int32(N) A) -> (float(N) O) { O(i) = A(i) }"), "O"), "float");

  auto role = [](const char* statements, const char* tensor) {
    return infer(std::string("def f(float(N) A) -> (O) { ") + statements + " }")
        .tensor(tensor)
        .role;
  };
  CHECK(role("O(i) = A(i)", "O") == TensorRole::Output);
  CHECK(role("O(i) +=! A(i)", "O") == TensorRole::Output);
  CHECK(role("O(i) += A(i)", "O") == TensorRole::InOut);
  CHECK(role("O(i) = O(i) * A(i)", "O") == TensorRole::InOut);
  CHECK(role("T(i) = A(i) O(i) = T(i)", "T") == TensorRole::Temporary);
  // `!` without a reduction index is an assignment.
  CHECK(infer("def f(float(N) A) -> (O) { O(i) +=! A(i) }").statements[0].reduction ==
        tc::ir::Reduction::None);
  CHECK_HAS(tc::lang::parse("def f(float(N) A) -> (O) { O += A(i) }").warnings.at(0),
            "reduction operator +=! instead of +=");
}

// ---- printing

void test_printing() {
  auto text = [](const std::string& value) {
    std::string all =
        define("def f(float(N) A, float(N) B) -> (O) { O(i) = " + value + " where i in 0:N }")
            ->text;
    size_t begin = all.find(" = ") + 3;
    return all.substr(begin, all.find(" where") - begin);
  };
  CHECK_EQ(text("((A(i)) + (B(i) * 2))"), "A(i) + B(i) * 2");
  CHECK_EQ(text("(A(i) + B(i)) * 2"), "(A(i) + B(i)) * 2");
  CHECK_EQ(text("A(i) - (B(i) - 2)"), "A(i) - (B(i) - 2)");
  CHECK_EQ(text("-(A(i) + 1)"), "-(A(i) + 1)");
  CHECK_EQ(text("A(i)>0?1:B(i)>0?2:3"), "A(i) > 0 ? 1 : B(i) > 0 ? 2 : 3");
  CHECK_EQ(text("(A(i)>0?true:false)?2:3"), "(A(i) > 0 ? true : false) ? 2 : 3");
  CHECK_EQ(text("1 + (A(i) > 0 ? 2 : 3)"), "1 + (A(i) > 0 ? 2 : 3)");
  CHECK_EQ(text("fmaxf(A(i), float32(min(i, 3)))"), "fmax(A(i), float(min(i, 3)))");
  CHECK_EQ(text("A.0"), "A.0");

  auto key = [](const std::string& source) { return define(source)->key; };
  CHECK_EQ(key("def fun(float(B, N, M) X, float(B, M, K) Y) -> (Z) {"
               " Z(b, i, j) +=! X(b, i, k) * Y(b, k, j) }"),
           key("def g(float32(N, B, W) W, float(N, W, E) B) -> (Q)"
               "{ Q(n, ii, j) +=! (W(n, ii, kk) * B(n, kk, j)) }"));
  CHECK(key("def f(float(M, N) A) -> (O) { O(i, j) = A(i, j) }") !=
        key("def f(float(M, N) A) -> (O) { O(j, i) = A(i, j) }"));
  CHECK(key("def f(float(M, N) A) -> (O) { O(i, j) = A(i, j) }") !=
        key("def f(float(M, M) A) -> (O) { O(i, j) = A(i, j) }"));
}

// ---- calls

void test_calls() {
  Program program = infer(
      "def layer(float(B,M) I, float(O,M) W, float(O) b, float slope) -> (R) {\n"
      "  T(n,o) = b(o)\n  T(n,o) += I(n,m) * W(o,m) / M\n  R(n,o) = fmax(T(n,o), slope)\n}\n"
      "def both(float(B,M) I) -> (S, D) { S(i) +=! I(i,j) D(i,j) = I(i,j) * 2 }\n"
      "def net(float(B,M) I, float(O,M) W, float(O) b, float(P,O) V, float(P) c) -> (Y, S) {\n"
      "  X = layer(I, W, b, 0.1)\n"
      "  Y = layer(X, V, c, 0)\n"
      "  (S, D) = both(Y)\n}");
  CHECK_EQ(program.statements.size(), 8u);
  CHECK_EQ(shape(program, "Y"), "[B, P]");
  CHECK_EQ(shape(program, "X"), "[B, O]");
  CHECK(program.tensor("X").role == TensorRole::Temporary);
  CHECK(program.tensor("layer_T").role == TensorRole::Temporary);
  CHECK(program.tensor("layer_T_1").role == TensorRole::Temporary);
}

/// The vocabulary of bodies.
void test_bodies() {
  using tc::ir::c_div;
  using tc::ir::c_mod;
  for (int a : {-7, -6, -1, 0, 1, 6, 7}) {
    for (int b : {-3, -1, 1, 2, 3}) {
      auto value = [](const Expr& e) { return to_text(Halide::Internal::simplify(e)); };
      CHECK_EQ(value(c_div(Expr(a), Expr(b))), std::to_string(a / b));
      CHECK_EQ(value(c_mod(Expr(a), Expr(b))), std::to_string(a % b));
      // With a divisor that is only known at run time.
      auto at = [&](const Expr& e) {
        return value(Halide::Internal::substitute(
            std::map<std::string, Expr>{{"a", Expr(a)}, {"b", Expr(b)}}, e));
      };
      Expr x = tc::ir::make_variable("a"), y = tc::ir::make_variable("b");
      CHECK_EQ(at(c_div(x, y)), std::to_string(a / b));
      CHECK_EQ(at(c_mod(x, y)), std::to_string(a % b));
    }
  }
  CHECK_EQ(to_text(tc::ir::identity(tc::ir::Reduction::Max, Halide::UInt(8))), "(uint8)0");
  CHECK_EQ(to_text(tc::ir::identity(tc::ir::Reduction::Max, Halide::Float(32))), "-inff");
  CHECK_EQ(to_text(tc::ir::identity(tc::ir::Reduction::Min, Halide::Int(8))), "(int8)127");
  // A difference of a float with itself is NaN for infinities, so it stays.
  CHECK_HAS(to_string(infer("def f(float(N) A) -> (O) { O(i) = A(i) - A(i) }")), "A(i) - A(i)");
  CHECK(tc::lang::find_builtin("fmaxf") == tc::lang::find_builtin("fmax"));
  CHECK(tc::lang::find_builtin("isnanf") == nullptr);
}

/// The page lists the functions that there are.
void test_documented_functions() {
  std::ifstream file(std::string(TC_SOURCE_DIRECTORY) + "/docs/language.md");
  std::stringstream page;
  page << file.rdbuf();
  std::string text = page.str();
  size_t begin = text.find("\n## Built-in functions\n"), end = text.find("\n## ", begin + 1);
  CHECK(end != std::string::npos);
  text = text.substr(begin, end - begin);
  std::set<std::string> words;
  static const std::regex word("[a-z][a-z0-9_]*");
  for (std::sregex_iterator found(text.begin(), text.end(), word), last; found != last; ++found) {
    words.insert(found->str());
  }
  for (const std::string& name : tc::lang::all_builtin_names()) {
    if (!words.count(name)) CHECK_EQ(name, "is missing from docs/language.md");
  }
}

}  // namespace

int main() {
  test_accepted();
  test_rejected();
  test_expansions();
  test_types();
  test_printing();
  test_calls();
  test_bodies();
  test_documented_functions();
  return check::finish();
}
