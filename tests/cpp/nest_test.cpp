// Nests that are put together by hand: what the verifier refuses, how they print, and kernels whose
// loop bounds are data. `nest_test --time` prints how long those take beside loops in C.
#include "nest/nest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "base/error.h"
#include "check.h"
#include "codegen/cpu/cpu_jit.h"
#include "nest/loops.h"
#include "tc/tc.hpp"

namespace {

using namespace tc;
using nest::Compute;
using nest::Expr;
using nest::Nest;
using nest::Role;

Expr var(const std::string& name) { return ir::make_variable(name); }
Expr load(const std::string& buffer, const Expr& index, ir::Type type = Halide::Float(32)) {
  using namespace Halide::Internal;
  return Load::make(type, buffer, index, Halide::Buffer<>(), nest::alignment_of(buffer, type),
                    const_true(), ModulusRemainder());
}
Nest compute(const std::string& buffer, const Expr& index, const Expr& value,
             ir::Reduction reduction = ir::Reduction::None) {
  Compute made;
  made.buffer = buffer;
  made.type = value.type();
  made.index = index;
  made.value = value;
  made.reduction = reduction;
  made.parameter = nest::alignment_of(buffer, made.type);
  return nest::make(std::move(made));
}
Nest loop(const std::string& name, const Expr& min, const Expr& extent, Role role,
          const Nest& body) {
  return nest::make_loop(name, min, extent, role, body);
}

std::shared_ptr<runtime::Kernel> compile(const Nest& nest,
                                         const std::vector<std::string>& arguments) {
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  nest::verify(nest, buffers);
  std::vector<runtime::Workspace> workspaces;
  StageClock clock;
  return codegen::compile_cpu("nest", nest, arguments, workspaces, codegen::BufferFacts(),
                              codegen::Texts::Short, clock);
}

// ---- sparse matrix times vector: bounds of the inner loop are loaded

/// y(i) = sum of value(p) * x(column(p)) for p from start(i) to start(i + 1), compressed rows.
Nest sparse_product(int rows) {
  const ir::Type index = Halide::Int(32);
  const Expr i = var("i"), p = var("p");
  const Expr first = load("start", i, index), last = load("start", i + 1, index);
  const Nest sum =
      compute("y", i, load("value", p) * load("x", load("column", p, index)), ir::Reduction::Sum);
  const Nest row = nest::make_sequence(
      {compute("y", i, Expr(0.0f)), loop("p", first, last - first, Role::Vector, sum)});
  constexpr int kTask = 64;
  const Expr begin = var("task") * kTask;
  return loop("task", 0, (rows + kTask - 1) / kTask, Role::Parallel,
              loop("i", begin, Halide::min(Expr(kTask), rows - begin), Role::Serial, row));
}

/// A matrix in compressed rows.
struct Sparse {
  int rows = 0, columns = 0;
  std::vector<int32_t> start = {0}, column;
  std::vector<float> value;

  /// Rows of `mean` elements and a few more or less, every tenth of them empty.
  Sparse(int rows, int columns, int mean, unsigned seed) : rows(rows), columns(columns) {
    std::mt19937 random(seed);
    for (int i = 0; i < rows; ++i) {
      const int count = i % 10 == 9 ? 0 : static_cast<int>(random() % (2 * mean + 1));
      std::set<int32_t> row;
      while (static_cast<int>(row.size()) < std::min(count, columns))
        row.insert(static_cast<int32_t>(random() % columns));
      for (int32_t j : row) {
        column.push_back(j);
        value.push_back(static_cast<float>(static_cast<int>(random() % 9) - 4));
      }
      start.push_back(static_cast<int32_t>(column.size()));
    }
  }
};

void multiply(const Sparse& a, const float* __restrict x, float* __restrict y) {
  for (int i = 0; i < a.rows; ++i) {
    float sum = 0;
    for (int32_t p = a.start[i]; p < a.start[i + 1]; ++p) sum += a.value[p] * x[a.column[p]];
    y[i] = sum;
  }
}

/// The kernel with the arguments that it takes.
struct SparseKernel {
  explicit SparseKernel(const Sparse& a) : a(a), x(a.columns), y(a.rows, NAN) {
    for (size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(static_cast<int>(j % 7) - 3);
    kernel = compile(sparse_product(a.rows), {"start", "column", "value", "x", "y"});
  }
  void run() {
    const void* pointers[] = {a.start.data(), a.column.data(), a.value.data(), x.data(), y.data()};
    kernel->launch(*tc_default_host(), const_cast<void* const*>(pointers));
  }
  const Sparse& a;
  std::vector<float> x, y;
  std::shared_ptr<runtime::Kernel> kernel;
};

void check_sparse_products() {
  for (int mean : {0, 1, 3, 20, 100, 300}) {
    const Sparse a(101, 700, mean, 7);
    SparseKernel ours(a);
    ours.run();
    std::vector<float> wanted(a.rows);
    multiply(a, ours.x.data(), wanted.data());
    // Small integers: exact in any order.
    CHECK(ours.y == wanted);
  }
}

// ---- matrix product whose number of rows is a symbol

/// C(m, n) = sum over k of A(m, k) B(k, n): register tiles of 8 x 48, the last of which have some
/// rows, known when it runs, and the columns that are left over.
struct Product {
  static constexpr int kColumns = 256, kTerms = 128, kRowsOfTile = 8, kColumnsOfTile = 48;

  static Nest nest(const Expr& rows) {
    const Expr row = var("tm") * kRowsOfTile + var("m"), k = var("k");
    const Expr column = var("tn") * kColumnsOfTile + var("n");
    const Expr rows_here = Halide::min(Expr(kRowsOfTile), rows - var("tm") * kRowsOfTile);
    const Expr columns_here =
        Halide::min(Expr(kColumnsOfTile), kColumns - var("tn") * kColumnsOfTile);
    const auto points = [&](const Nest& body) {
      nest::Loop n{"n", 0, columns_here, Role::Vector, 0, body};
      nest::Loop m{"m", 0, rows_here, Role::Unrolled, 1, nest::make(n)};
      return nest::make(m);
    };
    const Expr place = row * kColumns + column;
    const Expr term = load("A", row * kTerms + k) * load("B", k * kColumns + column);
    nest::Tile tile;
    tile.dimensions = {{kColumnsOfTile, kColumns % kColumnsOfTile},
                       {kRowsOfTile, nest::TileDimension::kAnyRest}};
    tile.body = nest::make_sequence({points(compute("C", place, Expr(0.0f))),
                                     loop("k", 0, kTerms, Role::Serial,
                                          points(compute("C", place, term, ir::Reduction::Sum)))});
    const int panels = (kColumns + kColumnsOfTile - 1) / kColumnsOfTile;
    return loop(
        "tn", 0, panels, Role::Serial,
        loop("tm", 0, (rows + (kRowsOfTile - 1)) / kRowsOfTile, Role::Serial, nest::make(tile)));
  }

  Product() : kernel(compile(nest(load("M", 0, Halide::Int(32))), {"M", "A", "B", "C"})) {
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>(static_cast<int>(i * 7 % 9) - 4);
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3);
  }
  void run(int32_t rows, std::vector<float>& c) {
    const void* pointers[] = {&rows, a.data(), b.data(), c.data()};
    kernel->launch(*tc_default_host(), const_cast<void* const*>(pointers));
  }

  static constexpr int kMostRows = 300;
  std::vector<float> a = std::vector<float>(kMostRows * kTerms);
  std::vector<float> b = std::vector<float>(kTerms * kColumns);
  std::shared_ptr<runtime::Kernel> kernel;
};

void check_symbolic_product() {
  Product product;
  for (int rows = 1; rows <= 41; ++rows) {
    // Nothing is written behind the last row.
    std::vector<float> c((rows + 1) * Product::kColumns, 12345);
    product.run(rows, c);
    bool right = true;
    for (int m = 0; m <= rows; ++m)
      for (int n = 0; n < Product::kColumns; ++n) {
        float sum = m == rows ? 12345 : 0;
        for (int k = 0; m < rows && k < Product::kTerms; ++k)
          sum += product.a[m * Product::kTerms + k] * product.b[k * Product::kColumns + n];
        right = right && c[m * Product::kColumns + n] == sum;
      }
    check::record(right, __FILE__, __LINE__, concat("a product of ", rows, " rows"));
  }
}

// ---- what is no nest

std::string refusal(const Nest& nest) {
  try {
    nest::verify(nest, {"A", "B"});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

void check_verifier() {
  const Nest store = compute("A", var("i"), Expr(1.0f));
  CHECK_EQ(refusal(loop("i", 0, 5, Role::Serial, store)), "accepted");
  CHECK_HAS(refusal(store), "the variable i is used outside its loop");
  CHECK_HAS(refusal(loop("i", 0, 5, Role::Serial, loop("i", 0, 5, Role::Serial, store))),
            "the loop or name i hides another of its name");
  CHECK_HAS(refusal(compute("C", 0, Expr(1.0f))), "the buffer C does not exist");
  CHECK_HAS(refusal(compute("A", 0, load("C", 0))), "the buffer C does not exist");
  CHECK_HAS(refusal(compute("A", Halide::cast<uint8_t>(0), Expr(1.0f))),
            "the index of A is no 32- or 64-bit integer");
  nest::Buffer buffer{"A", Halide::Float(32), 8, nest::Memory::Stack, compute("A", 0, Expr(1.0f))};
  CHECK_HAS(refusal(nest::make(buffer)), "the buffer A hides another of its name");
  buffer.name = "C", buffer.elements = 0;
  CHECK_HAS(refusal(nest::make(buffer)), "the buffer C has 0 elements");
  Compute other = *nest::as<Compute>(store);
  other.type = Halide::Float(64);
  CHECK_HAS(refusal(loop("i", 0, 5, Role::Serial, nest::make(other))), "goes to A of elements of");
  nest::Loop point = *nest::as<nest::Loop>(loop("i", 0, 5, Role::Unrolled, store));
  point.point = 1;
  CHECK_HAS(refusal(nest::make(point)), "the loop i is over points of no register tile around it");
  nest::Tile tile{{{5, 0}}, nest::make(point)};
  CHECK_HAS(refusal(nest::make(tile)), "the loop i is over points of no register tile around it");
  tile.dimensions.push_back({5, 0});
  CHECK_EQ(refusal(nest::make(tile)), "accepted");
  CHECK_HAS(refusal(nest::make(nest::Tile{{{1, 0}}, nest::make(tile)})),
            "a register tile lies in another one");
  CHECK_HAS(refusal(nest::make(nest::Prefetch{"A", Halide::Float(32), 0, 4})),
            "there is no cache 4");
}

// ---- walks and text

void check_walks() {
  const Nest inner =
      loop("j", 0, 5, Role::Vector,
           compute("A", var("i") * 5 + var("j"), load("B", var("j")), ir::Reduction::Max));
  const Nest nest = loop("i", 2, 5, Role::Serial, inner);
  CHECK_EQ(nest::to_string(nest), "for i in 2:7\n  vector j in 0:5\n    A[(i*5) + j] max= B[j]\n");
  CHECK(nest::same(nest, loop("i", 2, 5, Role::Serial, inner)));
  CHECK(!nest::same(nest, loop("i", 2, 5, Role::Unrolled, inner)));
  CHECK(!nest::same(nest, loop("i", 1, 5, Role::Serial, inner)));
  // A name is not replaced where a loop below has it.
  CHECK(nest::substitute("j", 1, nest) == nest);
  CHECK_HAS(nest::to_string(nest::substitute("i", 3, inner)), "A[(3*5) + j]");
  CHECK(nest::loaded_buffers(nest) == (std::set<std::string>{"A", "B"}));
  CHECK(nest::stored_buffers(nest) == (std::set<std::string>{"A"}));
  // Nothing changes: the same node.
  CHECK(nest::map_children(nest, [](const Nest& child) { return child; }) == nest);
  const Nest collapsed = nest::collapse_loops(
      loop("i", 0, 3, Role::Parallel,
           loop("j", 0, 5, Role::Parallel, compute("A", var("i") * 5 + var("j"), Expr(1.0f)))),
      Role::Parallel);
  CHECK_HAS(nest::to_string(collapsed), "parallel i.j in 0:15\n");
  nest::verify(collapsed, {"A"});
}

// ---- times

/// Seconds of the fastest of many runs.
template <class Run>
double fastest(Run run) {
  double best = 1e9;
  for (int k = 0; k < 200; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

/// The symbolic product beside the faster of two kernels for each number of rows: the compiler's
/// own, called through the C interface, which checks its arguments, and the same nest with a
/// constant.
void print_times_of_products() {
  namespace tcpp = tensor_comprehensions;
  Product product;
  std::vector<double> ratios;
  for (int rows = 1; rows <= Product::kMostRows; rows += 7) {
    std::vector<float> c(rows * Product::kColumns);
    std::vector<float> a(product.a.begin(), product.a.begin() + rows * Product::kTerms);
    std::vector<tcpp::Tensor> inputs, outputs;
    inputs.emplace_back(a, std::vector<int64_t>{rows, Product::kTerms});
    inputs.emplace_back(product.b, std::vector<int64_t>{Product::kTerms, Product::kColumns});
    outputs.emplace_back(c, std::vector<int64_t>{rows, Product::kColumns});
    tcpp::Definition definition = tcpp::Module(
        "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")["f"];
    tcpp::Kernel constant = tcpp::compile(definition, inputs);
    const double own = fastest([&] { product.run(rows, c); });
    const auto same = compile(Product::nest(Expr(rows)), {"M", "A", "B", "C"});
    const void* pointers[] = {&rows, a.data(), product.b.data(), c.data()};
    const double best = std::min(
        fastest([&] { constant.run(inputs, outputs); }),
        fastest([&] { same->launch(*tc_default_host(), const_cast<void* const*>(pointers)); }));
    ratios.push_back(best / own);
    std::printf("product of %d rows: %.2f us, %.2f us with that number as a constant, ratio %.2f\n",
                rows, own * 1e6, best * 1e6, best / own);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("median ratio %.2f, least %.2f\n", ratios[ratios.size() / 2], ratios[0]);
}

void print_times() {
  for (int mean : {4, 16, 64, 256}) {
    const Sparse a(20000, 20000, mean, 3);
    SparseKernel ours(a);
    std::vector<float> wanted(a.rows);
    const double own = fastest([&] { ours.run(); });
    const double plain = fastest([&] { multiply(a, ours.x.data(), wanted.data()); });
    std::printf("sparse product, rows of %d: %.1f us, in C %.1f us, ratio %.2f\n", mean, own * 1e6,
                plain * 1e6, plain / own);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::strcmp(arguments[1], "--time") == 0) {
      print_times();
      print_times_of_products();
      return 0;
    }
    check_verifier();
    check_walks();
    check_sparse_products();
    check_symbolic_product();
  } catch (const std::exception& error) {
    check::record(false, __FILE__, __LINE__, error.what());
  }
  return check::finish();
}
