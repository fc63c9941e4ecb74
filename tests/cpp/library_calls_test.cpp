// Calls of a library that the host gives: what it is asked for, and what becomes of its failures.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "machine/measure.h"
#include "runtime/libraries.h"
#include "tc/tc.hpp"

namespace {

namespace tcpp = tensor_comprehensions;

struct Library {
  int products = 0, convolutions = 0;
  bool fails = false, deterministic = false;
  bool boasts = false;                  ///< whether samples take no time
  std::vector<int64_t> sizes, strides;  ///< of the last product's first factor
};

int answer(const Library& library, char* message, size_t size) {
  if (library.fails) std::snprintf(message, size, "it is Sunday");
  return library.fails;
}

/// Products by their definition.
int multiply(void* context, const DLTensor* a, const DLTensor* b, const DLTensor* result,
             int accumulate, char* message, size_t size) {
  auto& library = *static_cast<Library*>(context);
  ++library.products;
  if (library.boasts && a->shape[1] == 384) return 0;
  library.sizes.assign(a->shape, a->shape + a->ndim);
  library.strides.assign(a->strides, a->strides + a->ndim);
  auto at = [](const DLTensor* t, int64_t i, int64_t j, int64_t k) -> float& {
    return static_cast<float*>(t->data)[i * t->strides[0] + j * t->strides[1] + k * t->strides[2]];
  };
  for (int64_t i = 0; i < result->shape[0]; ++i)
    for (int64_t m = 0; m < result->shape[1]; ++m)
      for (int64_t n = 0; n < result->shape[2]; ++n) {
        float sum = accumulate ? at(result, i, m, n) : 0;
        for (int64_t k = 0; k < a->shape[2]; ++k) sum += at(a, i, m, k) * at(b, i, k, n);
        at(result, i, m, n) = sum;
      }
  return answer(library, message, size);
}

int convolve(void* context, const tc_convolution*, const DLTensor*, const DLTensor*,
             const DLTensor*, char* message, size_t size) {
  auto& library = *static_cast<Library*>(context);
  ++library.convolutions;
  return answer(library, message, size);
}

int deterministic(void* context) { return static_cast<Library*>(context)->deterministic; }

const char* kText =
    "def f(float(M, K) A, float(K, N) B) -> (C) {\n"
    "  C(m, n) = 1.0\n"
    "  C(m, n) += A(m, k) * B(k, n)\n"
    "  C(m, n) = 2.0 * C(m, n)\n"
    "}";

/// All elements are `value`.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, float value)
      : values(static_cast<size_t>(rows * columns), value), tensor(values, {rows, columns}) {}
  std::vector<float> values;
  tcpp::Tensor tensor;
};

void test_calls(Library& library) {
  Matrix a(40, 30, 1), b(30, 50, 2), c(40, 50, -1);
  tcpp::Definition definition = tcpp::Module(kText)["f"];
  std::vector<tcpp::Tensor> in = {a.tensor, b.tensor}, out = {c.tensor};
  tcpp::Kernel kernel = tcpp::compile(definition, in);
  CHECK_HAS(kernel.text("explain"), "call: Slow, product of matrices 40x30 and 30x50");
  kernel.run(in, out);
  CHECK_EQ(library.products, 1);
  CHECK(library.sizes == (std::vector<int64_t>{1, 40, 30}));
  CHECK(library.strides == (std::vector<int64_t>{0, 30, 1}));
  CHECK(c.values == std::vector<float>(c.values.size(), 2 * (1 + 30 * 2)));

  library.fails = true;
  try {
    kernel.run(in, out);
    check::record(false, __FILE__, __LINE__, "a failure of the library was lost");
  } catch (const tcpp::UsageError& error) {
    CHECK_HAS(error.what(),
              "Slow cannot make the product of matrices 40x30 and 30x50: it is Sunday; "
              "matchLibraryCalls(False)");
  }
  library.fails = false;
  kernel.run(in, out);
  CHECK(c.values == std::vector<float>(c.values.size(), 2 * (1 + 30 * 2)));
}

void test_no_calls(Library& library, const char* name) {
  Matrix a(40, 30, 1), b(30, 50, 2), c(40, 50, -1);
  library.products = 0;
  std::vector<tcpp::Tensor> in = {a.tensor, b.tensor}, out = {c.tensor};
  tcpp::compile(tcpp::Module(kText)["f"], in).run(in, out);
  CHECK_EQ(library.products, 0);
  if (library.products != 0) std::fprintf(stderr, "with %s\n", name);
  CHECK(c.values == std::vector<float>(c.values.size(), 2 * (1 + 30 * 2)));
}

/// A kernel of ours that was measured takes the arguments of the definition, those that no
/// statement reads too.
void test_measured_and_refused() {
  Matrix unused(3, 5, 7), a(256, 256, 1), b(256, 256, 2), c(256, 256, -1);
  std::vector<float> scalar = {0.5f};
  std::vector<tcpp::Tensor> in = {unused.tensor, a.tensor, b.tensor, tcpp::Tensor(scalar, {})};
  std::vector<tcpp::Tensor> out = {c.tensor};
  tcpp::Kernel kernel = tcpp::compile(
      tcpp::Module("def f(float(R, S) Z, float(M, K) A, float(K, N) B, float s) -> (C) {"
                   " C(m, n) +=! A(m, k) * B(k, n) }")["f"],
      in);
  CHECK_HAS(kernel.text("explain"),
            "call left alone: Slow, product of matrices 256x256 and 256x256");
  CHECK_HAS(kernel.text("explain"), "measured ");
  kernel.run(in, out);
  CHECK(c.values == std::vector<float>(c.values.size(), 256 * 2));
}

/// Memory between the elements of a view is not made for a measurement.
void test_wide_views_are_not_measured() {
  Matrix b(256, 256, 2);
  std::vector<float> one(1);
  std::vector<tcpp::Tensor> in = {tcpp::Tensor(one.data(), {256, 256}, {int64_t{1} << 20, 1}),
                                  b.tensor};
  tcpp::Kernel kernel = tcpp::compile(tcpp::Module("def f(float(M, K) A, float(K, N) B) -> (C) {"
                                                   " C(m, n) +=! A(m, k) * B(k, n) }")["f"],
                                      in);
  CHECK_HAS(kernel.text("explain"), "Slow, product of matrices 256x256 and 256x256");
  CHECK(std::string(kernel.text("explain")).find("measured ") == std::string::npos);
}

/// Neither a kernel of this process nor code on disk that calls one library is for another.
void test_another_library(Library& library, const tc_libraries& table) {
  char folder[] = "/tmp/tc_library_calls_XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  tcpp::check(tc_set_code_folder(folder, 1 << 24));
  Library second;
  tc_libraries other = table;
  other.name = "Other";
  other.context = &second;
  Matrix a(40, 30, 1), b(30, 50, 2), c(40, 50, -1);
  std::vector<tcpp::Tensor> in = {a.tensor, b.tensor}, out = {c.tensor};
  const tcpp::Definition definition = tcpp::Module(kText)["f"];
  auto run = [&](const tc_libraries& used) {
    tcpp::check(tc_set_libraries(&used));
    auto kernel = std::make_unique<tcpp::Kernel>(tcpp::compile(definition, in));
    kernel->run(in, out);
    return kernel;
  };
  library.products = 0;
  auto first = run(table);
  CHECK_EQ(library.products, 1);
  auto held = run(other);
  CHECK_EQ(library.products, 1);
  CHECK_EQ(second.products, 1);
  CHECK_HAS(held->text("explain"), "call: Other");
  first.reset();
  held.reset();
  // Each library's own code is there.
  for (const tc_libraries* used : {&table, static_cast<const tc_libraries*>(&other)}) {
    auto found = run(*used);
    CHECK_HAS(found->text("explain"), "found in");
    CHECK_HAS(found->text("explain"), std::string("call: ") + used->name);
  }
  CHECK_EQ(library.products, 2);
  CHECK_EQ(second.products, 2);
  tcpp::check(tc_set_libraries(&table));
  tcpp::check(tc_set_code_folder(nullptr, 0));
  std::filesystem::remove_all(folder);
}

/// A library's speed is known in operations a cycle. Additions that a processor makes while it
/// renames registers are no measure: they gave 20 GHz.
void test_cycles_of_a_core() {
  const double hertz = 1 / tc::machine::seconds_per_cycle();
  CHECK(hertz > 0.1e9 && hertz < 8e9);
}

}  // namespace

int main() {
  test_cycles_of_a_core();
  setenv("TC_MACHINE", "library_rate=1000000000,library_call_cycles=1", 1);
  Library library;
  tc_libraries table = {"Slow", &library, multiply, convolve, tc_default_host(), deterministic};
  test_no_calls(library, "no library");
  tc_set_libraries(&table);
  test_calls(library);
  test_another_library(library, table);
  library.deterministic = true;
  test_no_calls(library, "deterministic results asked for");
  library.deterministic = false;
  // So slow a library is left alone, however fast it was with the sample.
  library.boasts = true;
  unsetenv("TC_MACHINE");
  test_measured_and_refused();
  test_wide_views_are_not_measured();
  tc_set_libraries(nullptr);
  return check::finish();
}
