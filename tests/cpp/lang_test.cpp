// The frontend: which texts are taken, which are refused and where, the ranges and types found, and
// the text that is printed back.
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "ir/simplify.h"
#include "lang/builtins.h"
#include "lang/definition.h"
#include "lang/types.h"

namespace {

using tc::ir::Expr;
using tc::ir::Program;
using tc::ir::TensorRole;
using tc::lang::Definition;
using Values = std::map<std::string, int64_t>;

std::shared_ptr<const Definition> define(const std::string& text) {
  return tc::lang::parse(text).definitions.back();
}

Program infer(const std::string& text, const Values& scalars = {}) {
  return tc::lang::infer_ranges(*define(text), scalars);
}

std::string to_text(const Expr& e) {
  std::ostringstream out;
  out << e;
  return out.str();
}

/// "[M, N]" of a tensor.
std::string shape(const Program& program, const std::string& tensor) {
  std::string text = "[";
  for (const Expr& size : program.tensor(tensor).sizes) {
    text += (text.size() > 1 ? ", " : "") + to_text(size);
  }
  return text + "]";
}

/// "i in 0 + N" of every iterator, reductions with a star.
std::string domain(const Program& program, size_t statement) {
  std::string text;
  for (const auto& iterator : program.statements[statement].domain) {
    text += (text.empty() ? "" : ", ") + iterator.name + (iterator.reduction ? "*" : "") + " in " +
            to_text(iterator.min) + " + " + to_text(iterator.extent);
  }
  return text;
}

std::string type_of(const Program& program, const std::string& tensor) {
  return tc::lang::type_name(program.tensor(tensor).type);
}

// ---- texts that are taken, from the papers

const std::vector<std::string> kAccepted = {
    "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,kk) * B(n,kk) }",
    "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b,n,k) +=! X(b,n,m) * Y(b,k,m) }",
    "def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {\n"
    "  O(n,g,o,h,w) +=! I(n,g,i,h+kh,w+kw) * W1(g,o,i,kh,kw)\n"
    "  O(n,g,o,h,w) = O(n,g,o,h,w) + B(g,o)\n}",
    "def 1LUT(float(E1,D) LUT1, int32(B,L1) I1) -> (O1) { O1(i,j) +=! LUT1(I1(i,k),j) }",
    "def 2LUT(float(E1,D) LUT1, int(B,L1) I1, float(E2,D) LUT2, int(B,L2) I2) -> (O1,O2) {\n"
    "  O1(i,j) +=! LUT1(I1(i,k),j)\n  O2(i,j) +=! LUT2(I2(i,k),j)\n}",
    "def C3(float(B,WX) I, float(WY,WX) W) -> (C3) { C3(b,wy) +=! I(b,wxx) * W(wy,wxx) }",
    "def MLP1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {\n"
    "O1(b,n) = B1(n)\nO1(b,n) += I(b,m) * W1(n,m)\nO1(b,n) = fmaxf(O1(b,n), 0)\n}",
    "def mv(float(M,K) A, float(K) x) -> (C) {\n  C(i) = 0\n  C(i) += A(i,k) * x(k)\n}",
    "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
    "  C(i,j) = b * C(i,j)\n  C(i,j) += a * A(i,k) * B(k,j)\n}",
    "def fcrelu(float(B,I) in, float(O,I) weight, float(I) bias) -> (out) {\n"
    "  out(i,j) = bias(j)\n  out(b,o) += in(b,i) * weight(o,i)\n"
    "  out(i,j) = fmaxf(out(i,j), 0)\n}",
    "def conv2d(float(B,IP,H,W) in, float(OP,IP,KH,KW) weight) -> (out) {\n"
    "  out(b,op,h,w) +=! in(b,ip,h+kh,w+kw) * weight(op,ip,kh,kw)\n}",
    "def maxpool2x2(float(B,C,H,W) in) -> (out) {\n"
    "  out(b,c,i,j) max=! in(b,c,2*i+kw,2*j+kh) where kw in 0:2, kh in 0:2\n}",
    "def gather(float(N) X, int(A,B) I) -> (Z) { Z(i,j) = X(I(i,j)) }",
    "def outerProductMM(float(P,Q,R) A, float(S,R,T) B) -> (O) {\n"
    "  O(p,s,q,t) +=! A(p,q,r) * B(s,r,t)\n}",
    "def Kronecker3Full(float(D0,N0) W0, float(D1,N1) W1, float(D2,N2) W2, float(M,N0,N1,N2) X)\n"
    "-> (Y, XW2, XW2W1) {\n"
    "  XW2(m,n0,n1,d2) +=! X(m,n0,n1,r_n2) * W2(d2,r_n2)\n"
    "  XW2W1(m,n0,d1,d2) +=! XW2(m,n0,r_n1,d2) * W1(d1,r_n1)\n"
    "  Y(m,d0,d1,d2) +=! XW2W1(m,r_n0,d1,d2) * W0(d0,r_n0)\n}",
    "def group_normalization(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta)\n"
    "-> (O, sum, sumSquares) {\n"
    "  sum(n,g) +=! I(n,g,r_d,r_h,r_w)\n"
    "  sumSquares(n,g) +=! I(n,g,r_d,r_h,r_w) * I(n,g,r_d,r_h,r_w)\n"
    "  O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - sum(n,g) / (D*H*W))\n"
    "    * rsqrt(sumSquares(n,g) / (D*H*W) - sum(n,g) * sum(n,g) / (D*H*W) / (D*H*W) + 1e-5)\n"
    "    + beta(g,d)\n}",
    "def moments2_2D_1D(float(N,K) I) -> (mean, var) {\n"
    "  mean(n) +=! I(n,r_k)\n  var(n) +=! I(n,r_k) * I(n,r_k)\n"
    "  mean(n) = mean(n) / (K)\n  var(n) = var(n) / (K) - mean(n) * mean(n)\n}",
    "def spmv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,j) * x(j) }",
    "def mttkrp(float(I,K,L) B, float(K,J) C, float(L,J) D) -> (A) {\n"
    "  A(i,j) +=! B(i,k,l) * C(k,j) * D(l,j)\n}",
    "def conv(uint8(H,W,C) a, int8(R,S,K,C) b) -> (c) {\n"
    "  c(x,y,k) +=! int32(a(2*x+r,2*y+s,rc)) * int32(b(r,s,k,rc))\n}",
    // Shapes of the language itself.
    "def scalar(float(M) I) -> (O) { O +=! I(i) }",
    "def called(float(M) I) -> (O) { O() +=! I(i) }",
    "def annotated(float(M,N) A) -> (int32(M,N) o) { o(i,j) = int32(A(i,j)) }",
    "def constants(float(36,10) A) -> (O) { O(i) +=! A(i, 0x1 * j) * 2.f * .5 }",
    "def equivalent(float(X,Y) A, float(Y,Z) B) -> (O) {\n"
    "  O(i,j) +=! A(i,k) * B(k,j) <=> matmul(A(i,k), B(k,j))\n}",
    "def after(float(N) A) -> (O) <=> copy(A) { O(i) = A(i) }",
    "def lets(float(N) a) -> (b) { b(i) = 2 * foo where foo = a(i), i in 0:N, exists a(i + 0) }",
    "# a comment\ndef words(float(N) in, float(N) where, float(N) exists) -> (min_idx) {\n"
    "  min_idx(i) = in(i) + where(i) + exists(i) # another\n}",
    "def scattered(float(N,D) A, int64(N) I, float(V) B) -> (float(V,D) O) {\n"
    "  O(I(i), d) +=! A(i, d)\n  O(place, d) max= A(i, d) where place = V - 1 - I(i) % 2\n}",
    "def windows(float(N,K) A) -> (O) { O(v) = 0 where v in 0:2 * N + K\n  O(2 * i + k) += A(i, k) "
    "}",
    "def lazy(float(N) A) -> (O) { O(i) = i > 0 && A(i - 1) > 0.0 ? 1 : i < 3 ? 3 : 2\n"
    "  where i in 0:N }",
};

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
    {"def f(float(N) A) -> (O) { O(i) = A(i, i) }", "expected 1 dimensions but found 2", 1, 35},
    {"def f(float(N) A) -> (O) { O(i) = A(i) O(i,j) = A(i) * A(j) }",
     "expected 1 dimensions but found 2 dimensions: O", 1, 40},
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
     "defined with 1 dimensions but declared as an output with 0", 1, 24},
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
     "g expected 1 inputs but found 2 inputs", 2, 28},
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
       "d10 has more than 1000; split it"},
      {"def d0(float s, float(N) A) -> (O) { O(i) = A(i) * s * s }\n" + scaled,
       "more than 10000 operations"},
      {value(repeated("(A(i) + ", ") / 2", 60)), "more than 10000 operations"},
      {value(repeated("(", " + 1) % 3", 60)), "more than 10000 operations"},
      {value(repeated("A((", " + 1) / 2)", 60)), "more than 10000 operations"},
      {value(repeated("(", ") % A(i)", 60)), "more than 10000 operations"},
      {value(repeated("A(i) / (", ")", 60)), "more than 10000 operations"},
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
  CHECK(!define(value(repeated("(", ") % A(i)", 10)))->text.empty());
  CHECK(!define(value(repeated("abs(", ")", 60)))->text.empty());
  std::string floats = "def f(float(N) A) -> (O) { O(i) = A(i)";
  for (int n = 0; n < 500; ++n) floats += " / A(i)";
  CHECK(!define(floats + " }")->text.empty());
}

// ---- ranges

void test_ranges() {
  Program conv = infer(kAccepted[10]);
  CHECK_EQ(shape(conv, "out"), "[B, OP, ((H - KH) + 1), ((W - KW) + 1)]");
  CHECK_EQ(domain(conv, 0),
           "b in 0 + B, op in 0 + OP, h in 0 + ((H - KH) + 1), "
           "w in 0 + ((W - KW) + 1), ip* in 0 + IP, kh* in 0 + KH, kw* in 0 + KW");
  CHECK_EQ(shape(infer(kAccepted[11]), "out"), "[B, C, (H/2), (W/2)]");
  CHECK_EQ(shape(infer(kAccepted[12]), "Z"), "[A, B]");
  CHECK_EQ(shape(infer(kAccepted[3]), "O1"), "[B, D]");
  // Ranges taken from other statements, and the smaller of two sizes.
  Program mlp = infer(kAccepted[6]);
  CHECK_EQ(shape(mlp, "O1"), "[B, O]");
  CHECK_EQ(domain(mlp, 0), "b in 0 + B, n in 0 + O");
  CHECK_EQ(domain(mlp, 1), "b in 0 + B, n in 0 + O, m* in 0 + min(M, N)");
  CHECK_EQ(shape(infer(kAccepted[9]), "out"), "[B, I]");
  CHECK_EQ(domain(infer(kAccepted[9]), 1), "b in 0 + B, o in 0 + min(I, O), i* in 0 + I");
  CHECK_EQ(shape(infer(kAccepted[8]), "C"), "[N, K]");
  CHECK_EQ(shape(infer(kAccepted[7]), "C"), "[M]");

  // Specialised scalars are constants in the ranges.
  const char* strided =
      "def sconv2d(int sh, int sw, float(N,C,H,W) I, float(F,C,KH,KW) W, float(F) B) -> (O) {\n"
      "  O(n,f,h,w) = B(f)\n  O(n,f,h,w) += I(n,c,sh*h+kh,sw*w+kw) * W(f,c,kh,kw)\n}";
  CHECK(define(strided)->signature.scalars.at("sh").specialized);
  Program by_two = infer(strided, {{"sh", 2}, {"sw", 3}});
  CHECK_EQ(shape(by_two, "O"), "[N, F, (((H - KH)/2) + 1), (((W - KW)/3) + 1)]");
  CHECK(!define(kAccepted[8])->signature.scalars.at("a").specialized);

  struct Case {
    const char* statements;
    const char* shape;
    const char* domain;  ///< of the last statement
  };
  const Case cases[] = {
      {"O(i) = A(i - 1)", "[N]", "i in 1 + N"},
      {"O(i) = A(i + 5)", "[N]", "i in -5 + N"},
      {"O(i) = A(10 - i)", "[N]", "i in (11 - N) + N"},
      {"O(i) = A(2 * i)", "[((N + 1)/2)]", "i in 0 + ((N + 1)/2)"},
      {"O(i) = A(2 * i) + A(2 * i + 1)", "[(N/2)]", "i in 0 + (N/2)"},
      {"O(i) = A(2 * i + k) where k in 0:2", nullptr, nullptr},
      {"O(i) +=! A(2 * i + k) where k in 0:2", "[(N/2)]", "i in 0 + (N/2), k* in 0 + 2"},
      {"O(i) = A(i / 2)", "[(N*2)]", "i in 0 + (N*2)"},
      {"O(i) = A(i) + B(i)", "[min(M, N)]", "i in 0 + min(M, N)"},
      {"O(i) +=! A(i + k) * B(k)", "[((N - M) + 1)]", "i in 0 + ((N - M) + 1), k* in 0 + M"},
      // The terms of an index add up first: 2 * i - 2 * k from 0 to N - 1.
      {"O(i) +=! A(2 * i - 3 * k + k) where k in 0:3", "[((N + -3)/2)]",
       "i in 2 + ((N + -3)/2), k* in 0 + 3"},
      {"O(i) = 1.0 where exists A(i)", "[N]", "i in 0 + N"},
      {"O(i) = A(i) where i in 2:N - 1", "[(N + -3)]", "i in 2 + (N + -3)"},
      {"T(i) = A(i - 1) O(i) = T(i) + T(i + 1)", "[(N + -1)]", "i in 1 + (N + -1)"},
      {"O(i) = A(max(min(i, N - 1), 0)) where i in 0:2 * N", "[(N*2)]", "i in 0 + (N*2)"},
      {"O(i) = i > 0 ? A(i - 1) : 0", "[N]", "i in 1 + N"},
      {"O(i) = A(i) where i in 0:N O(i) = B(i - N) where i in N:N + M", "[(M + N)]", "i in N + M"},
      {"T(i) = A(i + 1) O(i) = 0 where i in 0:T.0 * A.0", "[(N*N)]", "i in 0 + (N*N)"},
      {"O(i) = 0.5 O(i) += A(i) * B(k)", "[N]", "i in 0 + N, k* in 0 + M"},
      {"O +=! A(i)", "[]", "i* in 0 + N"},
  };
  for (const Case& c : cases) {
    try {
      Program program =
          infer(std::string("def f(float(N) A, float(M) B) -> (O) { ") + c.statements + " }");
      CHECK(c.shape != nullptr);
      if (!c.shape) continue;
      CHECK_EQ(shape(program, "O"), c.shape);
      CHECK_EQ(domain(program, program.statements.size() - 1), c.domain);
    } catch (const tc::Error& error) {
      if (c.shape) CHECK_EQ(std::string(c.statements), std::string(error.what()));
    }
  }
  CHECK_EQ(shape(infer("def f() -> (float(4, 3) O) { O(i, j) = 1.0 }"), "O"), "[4, 3]");
  CHECK_EQ(shape(infer("def f(float(N, N) A) -> (float(N, N) O) { O(i, j) = 0 }"), "O"), "[N, N]");
  // Element 0 belongs to the lower bound, on both sides.
  Program shifted = infer("def f(float(N) A) -> (O) { T(i) = A(i - 1) O(i) = T(i) }");
  CHECK_HAS(to_string(shifted), "T(i - 1) = A(i - 1)");
  CHECK_HAS(to_string(shifted), "O(i - 1) = T(i - 1)");
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

// ---- specialisation and reads outside

std::string outside(const std::string& text, const Values& sizes) {
  return tc::lang::find_access_outside(tc::ir::specialize(infer(text), sizes));
}

std::string parse_error(const std::string& text) {
  try {
    tc::lang::parse(text);
    return "";
  } catch (const tc::LanguageError& error) {
    return error.what();
  }
}

void test_outside() {
  auto statement = [](const std::string& value, const Values& sizes) {
    return outside("def f(float(N) A) -> (O) { O(i) = " + value + " }", sizes);
  };
  CHECK_HAS(statement("A(i + 3) where i in 0:6", {{"N", 8}}),
            "reads A(i + 3) outside: i = 5 gives index 8, but dimension 0 of A has size 8 "
            "(i runs over 0:6)");
  CHECK_EQ(statement("A(i + 3) where i in 0:6", {{"N", 9}}), "");
  CHECK_HAS(statement("A(i - 1) where i in 0:4", {{"N", 9}}), "i = 0 gives index -1");
  CHECK_EQ(statement("i > 0 ? A(i - 1) : 0 where i in 0:4", {{"N", 9}}), "");
  CHECK_EQ(statement("i > 0 && A(i - 1) > 0 ? 1 : 0 where i in 0:4", {{"N", 9}}), "");
  CHECK_EQ(statement("i <= 0 || A(i - 1) > 0 ? 1 : 0 where i in 0:4", {{"N", 9}}), "");
  CHECK_HAS(statement("i > 0 ? A(i - 2) : 0 where i in 0:4", {{"N", 9}}), "i = 1 gives index -1");
  CHECK_EQ(statement("A(max(i - 3, 0)) where i in 0:N", {{"N", 9}}), "");
  CHECK_HAS(statement("A(min(i + 2, N)) where i in 0:N", {{"N", 9}}), "gives index 9");
  CHECK_EQ(statement("A(i % 4) where i in 0:100", {{"N", 4}}), "");
  CHECK_HAS(statement("A(i % 4) where i in 0:100", {{"N", 3}}), "i = 3 gives index 3");
  CHECK_HAS(outside("def f(float(N) A) -> (O) { O(i, j) = A(i * j) * A(i) * A(j) }", {{"N", 4}}),
            "reaches index 9");
  CHECK_HAS(outside("def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) O(i) = B(i) }",
                    {{"N", 4}, {"M", 5}}),
            "writes O(i) outside: i = 4 gives index 4, but dimension 0 of O has size 4");
  CHECK_HAS(outside("def f(float(N) A, float(K) B) -> (O) { O(i) +=! A(i + k) * B(k) }",
                    {{"N", 3}, {"K", 5}}),
            "range of index i is empty");
  CHECK_EQ(outside("def f(float(N) A, int32(M) I) -> (O) { O(i) = A(I(i)) }", {{"N", 3}, {"M", 5}}),
           "");
  CHECK_EQ(statement("A(i)", {{"N", 0}}), "");
  // Long products, of which interval arithmetic on expressions makes too much.
  std::string product = "A(i";
  for (int n = 1; n < 20; ++n) product += " * (i + " + std::to_string(n) + ")";
  const std::string ones = " where i in 0:1";
  CHECK_EQ(statement(product + ")" + ones, {{"N", 1}}), "");
  CHECK_HAS(statement(product + " - 1)" + ones, {{"N", 1}}), "reaches index -1");
  CHECK_EQ(statement("i > 0 ? " + product + " - 1) : 0" + ones, {{"N", 1}}), "");
  CHECK_HAS(
      parse_error("def f(float(N) A) -> (O) { O(j) +=! " + product + " * j) where i in 0:1 }"),
      "Could not infer ranges for free variables. Use a where clause to give j its range");

  Program pool = tc::ir::specialize(infer(kAccepted[11]), {{"B", 2}, {"C", 3}, {"H", 9}, {"W", 8}});
  CHECK_EQ(shape(pool, "out"), "[2, 3, 4, 4]");
  CHECK_EQ(tc::lang::find_access_outside(pool), "");
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
  test_ranges();
  test_types();
  test_printing();
  test_calls();
  test_outside();
  test_bodies();
  test_documented_functions();
  return check::finish();
}
