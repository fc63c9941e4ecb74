// The ranges of indices and the sizes of results that inference finds, and the reads that leave
// their tensors for some sizes.
#include <string>

#include "base/error.h"
#include "check.h"
#include "texts.h"

namespace {

using namespace texts;

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

// ---- specialisation and reads outside

std::string outside(const std::string& text, const Values& sizes) {
  return tc::lang::check_accesses(tc::ir::specialize(infer(text), sizes)).outside;
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
            "i = 2, j = 2 gives index 4");
  CHECK_HAS(outside("def f(float(N) A) -> (O) { O(i, j) = A(i * j) * A(i) * A(j) }", {{"N", 400}}),
            "i = 399, j = 399 gives index 159201");
  CHECK_HAS(outside("def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) O(i) = B(i) }",
                    {{"N", 4}, {"M", 5}}),
            "writes O(i) outside: i = 4 gives index 4, but dimension 0 of O has size 4");
  CHECK_HAS(outside("def f(float(N) A, float(K) B) -> (O) { O(i) +=! A(i + k) * B(k) }",
                    {{"N", 3}, {"K", 5}}),
            "range of index i is empty");
  CHECK_EQ(outside("def f(float(N) A, int32(M) I) -> (O) { O(i) = A(I(i)) }", {{"N", 3}, {"M", 5}}),
           "");
  CHECK_EQ(statement("A(i)", {{"N", 0}}), "");
  // Too many points to look at all of them: the corners, and a check when it is run.
  const std::string bow =
      "def f(float(N) A) -> (O) { O(i) = A(i * (20000 - i) / 20000) where i in 0:20001 }";
  const auto open = tc::lang::check_accesses(tc::ir::specialize(infer(bow), {{"N", 5000}}));
  CHECK_EQ(open.outside, "");
  CHECK_EQ(open.open.size(), 1u);
  // Operands that depend on each other, of which intervals make more than there is.
  for (const char* subscript : {"min(max((-i) / (N / i), 0), 4)", "min((-i) / (N / i) + 2, 4)",
                                "max((-i) / (N / i) + 2, 0)", "(-i) / (N / i) + 2",
                                "(-i) / (N / (i + 1)) + 2", "(N / (i + 1)) % (i + 1)"})
    CHECK_EQ(statement(tc::concat("A(", subscript, ") where i in 0:3"), {{"N", 5}}), "");
  CHECK_HAS(statement("A((-i) / (N / (i + 1)) + 1) where i in 0:3", {{"N", 5}}),
            "i = 2 gives index -1");
  // Long products, of which interval arithmetic on expressions makes too much.
  std::string product = "A(i";
  for (int n = 1; n < 20; ++n) product += " * (i + " + std::to_string(n) + ")";
  const std::string ones = " where i in 0:1";
  CHECK_EQ(statement(product + ")" + ones, {{"N", 1}}), "");
  CHECK_HAS(statement(product + " - 1)" + ones, {{"N", 1}}), "i = 0 gives index -1");
  CHECK_EQ(statement("i > 0 ? " + product + " - 1) : 0" + ones, {{"N", 1}}), "");
  CHECK_HAS(
      parse_error("def f(float(N) A) -> (O) { O(j) +=! " + product + " * j) where i in 0:1 }"),
      "Could not infer ranges for free variables. Use a where clause to give j its range");

  Program pool = tc::ir::specialize(infer(kAccepted[11]), {{"B", 2}, {"C", 3}, {"H", 9}, {"W", 8}});
  CHECK_EQ(shape(pool, "out"), "[2, 3, 4, 4]");
  CHECK_EQ(tc::lang::check_accesses(pool).outside, "");
}

}  // namespace

int main() {
  test_ranges();
  test_outside();
  return check::finish();
}
