// Which statements that read what they write are refused where the text is, beside what a call
// makes of them for many sizes.
#include "lang/sema/recurrences.h"

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "compile.h"
#include "machine/facts.h"
#include "poly/scop.h"
#include "runtime/libraries.h"
#include "texts.h"

namespace {

using namespace texts;

/// Empty where a text is accepted.
std::string refusal(const std::string& text) {
  try {
    tc::lang::refuse_recurrences(*define(text));
    return "";
  } catch (const tc::LanguageError& error) {
    return error.what();
  }
}

enum class Verdict { Right, InPlace, Outside };

/// What a call says for these sizes. With `whole` all stages run, which may leave statements out.
Verdict call(const Program& inferred, const Values& sizes, bool whole) {
  Program program = tc::ir::specialize(inferred, sizes);
  if (!tc::lang::check_accesses(program).outside.empty()) return Verdict::Outside;
  try {
    if (!whole) {
      tc::poly::make_scop(program);
      return Verdict::Right;
    }
    std::map<std::string, tc::Layout> layouts;
    for (const auto& [name, tensor] : program.tensors)
      if (tensor.role != TensorRole::Temporary) layouts[name] = tc::row_major(tensor);
    tc::compile(program, layouts, tc::MappingOptions(), tc::Target(),
                tc::machine::look_up(tc::runtime::host_threads()).cpu);
    return Verdict::Right;
  } catch (const tc::LanguageError& error) {
    CHECK_HAS(error.what(), "in place, at elements that other iterations of it write");
    return Verdict::InPlace;
  }
}

/// Whether every index of every statement has several values.
bool counts(const Program& inferred, const Values& sizes) {
  Program program = tc::ir::specialize(inferred, sizes);
  for (const auto& statement : program.statements)
    for (const auto& iterator : statement.domain)
      if (tc::ir::extent_of(iterator) < 2) return false;
  return true;
}

std::vector<Values> all_sizes(int64_t largest) {
  std::vector<Values> all;
  for (int64_t n = 1; n <= largest; ++n)
    for (int64_t m = 1; m <= largest; ++m)
      for (int64_t k = 0; k <= 3; ++k) all.push_back({{"N", n}, {"M", m}, {"K", k}});
  return all;
}

std::string with_head(const std::string& statements) {
  return "def f(float(N) A, float(N, M) X, float(K) z, bool(N) m, int(N) J) -> (B) { " +
         statements + " }";
}

struct Case {
  const char* statements;
  bool refused;
};

const Case kCases[] = {
    {"B(i) = B(i - 1) * 0.5 + A(i)", true},
    {"B(i) = A(i) B(i) = B(i - 1) * 0.5 + A(i) where i in 1:N", true},
    {"B(i) = i > 0 ? B(i - 1) + A(i) : A(i) where i in 0:N", true},
    {"B(i) = A(i) B(i) = B(i - 1) + B(i - 2) where i in 2:N", true},
    {"B(n, i) = X(n, i) B(n, i) = B(n, i - 1) * 0.5 where i in 1:M", true},
    {"B(n, i) = X(n, i) B(n, i) = B(n - 1, i) + B(n - 1, i - 1) where n in 1:N, i in 1:M", true},
    {"B(n, k) = X(n, k) B(n, k) += B(n - 1, j) * X(j, k) where n in 1:N", true},
    {"B(i) = A(i) B(i) = B(i + 1) where i in 0:N - 1", true},
    {"B(i) = A(i) B(i) = B(N - 1 - i)", true},
    {"B(i) = A(i) B(i) = B(i) / B(0)", true},
    {"B(i) = A(i) B(i) += B(i) * X(i, k)", true},
    {"B(i) = A(i) B(i) = p * 2 where p = B(i - 1), i in 1:N", true},
    {"B(i) = A(i) B(i) = m(i) ? B(i - 1) : A(i) where i in 1:N", true},
    {"B(i) = A(i) B(i) = B(J(i))", true},
    {"B(i) = A(i) B(i) = B(min(i + 1, N - 1))", true},
    {"B(i) = A(i) B(i) = B(i - 1) * 2 where i in 1:3", true},
    {"T(i) = A(i) T(i) = T(i - 1) where i in 1:N B(i) = T(i)", true},
    // For some sizes that count these can be compiled.
    {"B(i) = A(i) B(i) = B(i) / N", false},
    {"B(i) = A(i) B(i) = B(i) + A(i) * X(i, 0)", false},
    {"B(i) = A(i) B(i) = B(i - 2) where i in 2:N", false},
    {"B(i) = A(i) B(i) = B(i + K) + z(0) where i in 0:K", false},
    {"B(i) = A(i) B(i) = B(i - N / 2) where i in N / 2:N", false},
    {"B(i) = A(i) B(i) = B(i - 2) where i in 2:4", false},
    {"B(i) = A(i) B(i) = i > N ? B(i - 1) : A(i) where i in 1:N", false},
    {"B(i) = A(i) B(i) = m(i) && i > N ? B(i - 1) : A(i) where i in 1:N", false},
    {"B(i) = A(i) B(i) = N > 4 ? B(i - 1) : A(i) where i in 1:N", false},
    {"B(i) = X(i / M, i % M) where i in 0:N * M B(i) = B(i - N) where i in N:N * M", false},
    {"B(i) = A(i) B(i) = A(i) where exists B(i + 1)", false},
    {"B(i) = A(i) C(i) = B(i - 1) where i in 1:N B(i) = C(i) where i in 1:N", false},
};

void test_cases() {
  for (const Case& c : kCases) {
    const std::string text = with_head(c.statements), said = refusal(text);
    CHECK_EQ(std::string(c.statements) + (said.empty() ? " accepted" : " refused"),
             std::string(c.statements) + (c.refused ? " refused" : " accepted"));
    const Program inferred = infer(text);
    bool some = false;
    for (const Values& sizes : all_sizes(4)) {
      if (!counts(inferred, sizes) || call(inferred, sizes, true) != Verdict::Right) continue;
      some = true;
      if (c.refused) CHECK_EQ(std::string(c.statements), "can be compiled");
      break;
    }
    if (!c.refused && !some) CHECK_EQ(std::string(c.statements), "is never right");
  }
}

/// A statement with a read of what it writes, and whether all of it is what isl can describe.
struct Drawn {
  std::string text;
  bool exact;
};

Drawn draw(std::mt19937& random) {
  auto pick = [&](const std::vector<std::string>& choices) {
    return choices[random() % choices.size()];
  };
  bool exact = true;
  auto subscript = [&](const std::string& i, const std::string& size) {
    static const std::vector<std::string> shapes = {
        "i",     "i",     "i - 1", "i + 1", "i - 2",         "S - 1 - i",
        "0",     "i / 2", "2 - i", "S / 2", "max(i - 1, 0)", "min(i + 1, S - 1)",
        "i % 2", "i - K"};
    std::string shape = pick(shapes);
    for (size_t at; (at = shape.find('S')) != std::string::npos;) shape.replace(at, 1, size);
    for (size_t at = 0; (at = shape.find('i', at)) != std::string::npos; ++at)
      if (shape[at + 1] != 'n') shape.replace(at, 1, i);
    return shape;
  };
  auto range = [&](const std::string& i, const std::string& size) {
    return i + " in " + pick({"0:" + size, "1:" + size, "2:" + size, "0:" + size + " - 1", "0:K"});
  };
  const bool two = random() % 3 == 0;
  const std::string read = two ? "B(" + subscript("i", "N") + ", " + subscript("j", "M") + ")"
                               : "B(" + subscript("i", "N") + ")";
  std::string value = pick({"R", "R * 0.5 + A(i)", "A(i) - R"});
  const std::string guard =
      pick({"", "", "", "i > 0 ? V : A(i)", "i > N ? V : A(i)", "N > 3 ? V : A(i)",
            "m(i) ? V : A(i)", "i >= K || m(i) ? V : A(i)", "i < K && m(i) ? A(i) : V"});
  if (!guard.empty()) {
    // What is compiled does not look at conditions.
    exact = false;
    value = std::string(guard).replace(guard.find('V'), 1, "(" + value + ")");
  }
  value.replace(value.find('R'), 1, read);
  std::string statement;
  if (two)
    statement = "B(i, j) = X(i, j) B(i, j) = " + value + " where " + range("i", "N") + ", " +
                range("j", "M");
  else if (random() % 3 == 0)
    statement = "B(i) = A(i) B(i) += " + value + " + X(i, k) where " + range("i", "N");
  else
    statement = "B(i) = A(i) B(i) = " + value + " where " + range("i", "N");
  return {with_head(statement), exact};
}

void test_random_statements() {
  std::mt19937 random(7);
  int refused = 0, accepted = 0;
  for (int drawn = 0; drawn < 250; ++drawn) {
    const Drawn statement = draw(random);
    std::string said;
    Program inferred;
    try {
      said = refusal(statement.text);
      inferred = infer(statement.text);
    } catch (const tc::Error&) {
      continue;  // a range that cannot be
    }
    bool some = false, never = false, outside = false;
    for (const Values& sizes : all_sizes(4)) {
      if (!counts(inferred, sizes)) continue;
      const Verdict verdict = call(inferred, sizes, !said.empty() && !statement.exact);
      never = never || verdict == Verdict::InPlace;
      outside = outside || verdict == Verdict::Outside;
      if (verdict != Verdict::Right) continue;
      some = true;
      if (!said.empty()) CHECK_EQ(statement.text, said + " but it can be compiled");
      break;
    }
    (said.empty() ? accepted : refused) += 1;
    // Nothing that has no chance goes unnoticed, unless a read outside is what is wrong with it.
    if (never && !some && !outside && statement.exact && said.empty())
      CHECK_EQ(statement.text, "is never right");
  }
  CHECK(refused > 50);
  CHECK(accepted > 50);
}

void test_messages() {
  const std::string scan =
      refusal(with_head("B(n, t) = X(n, t) B(n, t) = B(n, t - 1) + X(n, t) "
                        "where t in 1:M"));
  CHECK_HAS(scan, "this statement reads B in place, at elements that other iterations of it write");
  CHECK_HAS(scan,
            "sum all terms up to it, which is compiled to one step a result: "
            "B(n, t) +=! j <= t ? A(n, j) : 0 where t in 0:M.");
  CHECK_HAS(scan, "call it in a loop on the host");
  CHECK_HAS(scan, "^~~");
  CHECK_HAS(refusal(with_head("B(j) = A(j) B(j) = B(j + 1) where j in 0:N - 1")),
            "B(j) +=! k >= j ? A(k) : 0 where j in 0:N - 1. ");
  const std::string state =
      refusal(with_head("B(n, k) = X(n, k) B(n, k) += B(n - 1, j) * X(j, k) where n in 1:N"));
  CHECK_HAS(state,
            "(the accumulation changes what later terms would read). Define one step of "
            "the recurrence and call it in a loop on the host.");
  CHECK_HAS(refusal(with_head("B(i) = A(i) B(i) = B(N - 1 - i)")),
            "written. Write to a tensor of another name and use that one afterwards.");
}

}  // namespace

int main() {
  test_cases();
  test_random_statements();
  test_messages();
  return check::finish();
}
