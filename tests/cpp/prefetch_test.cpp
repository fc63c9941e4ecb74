// Prefetches in nests: what they ask for against what a naive interpreter sees the loops read.
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "codegen/prefetch/prefetch_panels.h"
#include "codegen/prefetch/prefetch_parts.h"
#include "codegen/prefetch/prefetch_passes.h"
#include "codegen/prefetch/walks.h"

namespace {

using tc::concat;
using tc::CpuMachine;
using tc::ir::Expr;
using tc::nest::as;
using tc::nest::Nest;
namespace codegen = tc::codegen;
namespace ir = tc::ir;
namespace nest = tc::nest;

const Halide::Type kFloat = Halide::Float(32);
constexpr int64_t kLine = 16;  // floats

Expr variable(const std::string& name) { return ir::make_variable(name); }
Nest serial(const std::string& name, int extent, const Nest& body) {
  return nest::make_loop(name, 0, extent, nest::Role::Serial, body);
}
Nest lanes(int extent, const Nest& body) {
  return nest::make_loop("v", 0, extent, nest::Role::Vector, body);
}
Nest store(const std::string& buffer, const Expr& index, const Expr& value,
           ir::Reduction reduction = ir::Reduction::None) {
  nest::Compute compute;
  compute.buffer = buffer;
  compute.type = value.type();
  compute.index = index;
  compute.value = value;
  compute.reduction = reduction;
  return nest::make(compute);
}
Expr load(const std::string& buffer, const Expr& index) {
  return ir::make_load(kFloat, buffer, index);
}

/// Runs a nest, and keeps what every iteration of the loop "b" reads of X and asks for.
class Interpreter {
 public:
  struct Iteration {
    std::set<int64_t> read;
    std::multiset<int64_t> asked;
  };
  std::map<int64_t, Iteration> iterations;

  void run(const Nest& nest) {
    if (const auto* loop = as<nest::Loop>(nest)) {
      const int64_t first = value(loop->min), count = value(loop->extent);
      for (int64_t at = first; at < first + count; ++at) {
        names_[loop->name] = static_cast<int>(at);
        if (loop->name == "b") now_ = at;
        run(loop->body);
      }
      names_.erase(loop->name);
    } else if (const auto* guard = as<nest::Guard>(nest)) {
      if (value(guard->condition) != 0) run(guard->then);
      if (value(guard->condition) == 0 && guard->otherwise) run(guard->otherwise);
    } else if (const auto* prefetch = as<nest::Prefetch>(nest)) {
      if (prefetch->buffer == "X" && prefetch->cache == cache)
        iterations[now_].asked.insert(value(prefetch->index));
    } else if (const auto* compute = as<nest::Compute>(nest)) {
      nest::for_each_load(compute->value, [&](const Halide::Internal::Load& load) {
        if (load.name == "X") iterations[now_].read.insert(value(load.index));
      });
    } else {
      nest::for_each_child(nest, [&](const Nest& child) { run(child); });
    }
  }
  int cache = 2;

 private:
  int64_t value(const Expr& e) const {
    auto found = Halide::Internal::as_const_int(
        Halide::Internal::simplify(Halide::Internal::substitute(names_, e)));
    if (found) return *found;
    auto truth = Halide::Internal::as_const_uint(
        Halide::Internal::simplify(Halide::Internal::substitute(names_, e)));
    if (!truth) throw tc::InternalError(__FILE__, __LINE__, "no number");
    return static_cast<int64_t>(*truth);
  }
  std::map<std::string, Expr> names_;
  int64_t now_ = 0;
};

/// Whether anything is asked for; whatever is covers all that the next iteration reads and this one
/// does not, and nothing twice.
bool asks_for_next(const Nest& nest, int cache = 2) {
  Interpreter interpreter;
  interpreter.cache = cache;
  interpreter.run(nest);
  bool asked = false;
  for (auto now = interpreter.iterations.begin(); now != interpreter.iterations.end(); ++now) {
    const auto& [read, asks] = now->second;
    asked = asked || !asks.empty();
    auto next = std::next(now);
    if (asks.empty() || next == interpreter.iterations.end()) continue;
    CHECK_EQ(std::set<int64_t>(asks.begin(), asks.end()).size(), asks.size());
    for (int64_t element : next->second.read) {
      auto line = asks.upper_bound(element);
      const bool covered = line != asks.begin() && element - *std::prev(line) < kLine;
      if (covered || read.count(element)) continue;
      check::record(false, __FILE__, __LINE__,
                    concat("element ", element, " of iteration ", next->first,
                           " is not asked for:\n", nest::to_string(nest)));
      return asked;
    }
  }
  CHECK(true);
  return asked;
}

/// The tile of a product: its results are in a local array.
Nest in_tile(const Nest& body) {
  return nest::make(nest::Buffer{"local", kFloat, 64, nest::Memory::Registers, body});
}

void test_footprints() {
  std::mt19937 random(3);
  auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<int> extents, steps;
    Expr index = between(0, 9);
    for (int l = 0; l < 3; ++l) {
      extents.push_back(between(1, 4));
      steps.push_back(between(0, 40));
      index = index + variable(concat("i", l)) * steps.back();
    }
    Nest body = store("Y", 0, load("X", index));
    for (int l = 3; l-- > 0;) body = serial(concat("i", l), extents[l], body);
    Interpreter interpreter;
    interpreter.run(body);
    const std::set<int64_t>& wanted = interpreter.iterations[0].read;

    const std::vector<codegen::Read> reads = codegen::find_reads(body);
    CHECK_EQ(reads.size(), size_t{1});
    codegen::Footprint runs(reads[0]), hull(reads[0]);
    for (auto loop = reads[0].inside.rbegin(); loop != reads[0].inside.rend(); ++loop) {
      runs.repeat(*loop, *runs.along(*loop));
      hull.widen(*loop, *hull.along(*loop));
    }
    const int64_t start = *Halide::Internal::as_const_int(Halide::Internal::simplify(runs.start));
    std::set<int64_t> found = {start};
    for (const codegen::Walk& walk : runs.walks) {
      std::set<int64_t> before = found;
      for (int64_t place : before)
        for (int64_t k = 1; k < walk.extent; ++k) found.insert(place + k * walk.step);
    }
    CHECK(found == wanted);
    CHECK_EQ(runs.span(), *wanted.rbegin() - *wanted.begin() + 1);
    CHECK_EQ(hull.width, runs.span());
    // One run, or several that are further apart.
    codegen::Footprint joined = runs;
    joined.join_runs(kLine);
    CHECK_EQ(joined.span(), runs.span());
    CHECK(joined.walks.empty() || joined.walks[0].step >= joined.width + kLine);
  }
}

void test_places_that_nobody_knows_are_no_reads() {
  Nest body = store("Y", variable("i"), load("X", Halide::cast<int>(load("T", variable("i")))));
  body = nest::make(
      nest::Binding{"n", variable("i") * 2,
                    nest::make_sequence({body, store("Y", 0, load("Z", variable("n")))})});
  std::vector<codegen::Read> reads = codegen::find_reads(serial("i", 4, body));
  CHECK_EQ(reads.size(), size_t{1});
  CHECK_EQ(reads[0].buffer, "T");
}

/// Rows of `width` of a panel, `stride` apart, for several blocks of results in every iteration of
/// b, whose panels lie side by side.
Nest panels(int panels, int blocks, int steps, int width, int stride) {
  Expr index = variable("b") * width + variable("k") * stride + variable("v");
  Nest body =
      lanes(width, store("local", variable("v"), load("X", index) * 2.0F, ir::Reduction::Sum));
  return serial("b", panels, serial("m", blocks, in_tile(serial("k", steps, body))));
}

void test_panels() {
  const CpuMachine machine;
  for (int width : {16, 24, 48, 64})
    for (int steps : {7, 8, 33}) {
      const Nest nest = panels(3, 4, steps, width, 1000);
      CHECK(asks_for_next(codegen::prefetch_panels(nest, {"X"}, machine)));
      CHECK(!asks_for_next(codegen::prefetch_panels(nest, {}, machine)));
      // The rows themselves all the same, into the first cache.
      Interpreter interpreter;
      interpreter.cache = 1;
      interpreter.run(codegen::prefetch_panels(nest, {}, machine));
      CHECK(!interpreter.iterations[0].asked.empty());
    }
}

void test_panels_follow_the_machine() {
  auto asks = [](const Nest& nest, const CpuMachine& machine) {
    bool found = false;
    nest::for_each_node(codegen::prefetch_panels(nest, {}, machine),
                        [&](const Nest& node) { found = found || as<nest::Prefetch>(node); });
    return found;
  };
  CpuMachine machine;
  // Rows of two lines, 784 bytes apart; and 400 bytes apart, of which 64 are 8 KiB.
  CHECK(asks(panels(3, 4, 64, 32, 196), machine));
  CHECK(!asks(panels(3, 4, 64, 32, 100), machine));
  machine.first_cache_bytes = 16 << 10;
  CHECK(asks(panels(3, 4, 64, 32, 100), machine));
  machine.line_buffers = 2;
  CHECK(!asks(panels(3, 4, 64, 32, 196), machine));
  machine = CpuMachine();
  machine.followed_bytes = 4096;
  CHECK(!asks(panels(3, 4, 8, 32, 196), machine));
}

/// Products one behind the other, of `rows` x `steps` elements each; the operand itself, or a copy.
Nest batch(int products, int rows, int steps, bool copied) {
  const Expr own = variable("n") * steps + variable("k"), place = variable("b") * (rows * steps);
  auto copy = [&](const Expr& place) {
    Nest element = store("copy", variable("i") * steps + variable("j"),
                         load("X", place + variable("i") * steps + variable("j")));
    return nest::make(nest::Copy{serial("i", rows, serial("j", steps, element))});
  };
  Nest tile = store("local", variable("n"), copied ? load("copy", own) : load("X", place + own),
                    ir::Reduction::Sum);
  tile = in_tile(serial("k", steps, nest::make_loop("n", 0, rows, nest::Role::Unrolled, tile)));
  Nest body = serial("m", 3, tile);
  return serial("b", products, copied ? nest::make_sequence({copy(place), body}) : body);
}

void test_parts() {
  const CpuMachine machine;
  for (bool copied : {false, true}) {
    for (auto [rows, steps] : {std::pair{4, 64}, {10, 64}, {13, 33}, {26, 72}})
      CHECK(asks_for_next(codegen::prefetch_parts(batch(3, rows, steps, copied), {"X"}, machine)));
    // A page is much more than so many steps ask for.
    CHECK(!asks_for_next(codegen::prefetch_parts(batch(3, 512, 3, copied), {"X"}, machine)));
  }
}

/// Three rows of each of an image's channels, which the next iteration of b moves by one or two.
void test_runs() {
  const CpuMachine machine;
  for (int by : {1, 2}) {
    const int columns = 28, channels = 16, height = 40;
    const Expr index = variable("c") * (columns * height) +
                       (variable("b") * by + variable("r")) * columns + variable("n");
    Nest tile = store("local", variable("n"), load("X", index), ir::Reduction::Sum);
    tile = serial("r", 3, nest::make_loop("n", 0, columns, nest::Role::Unrolled, tile));
    const Nest nest = serial("b", 4, serial("m", 2, in_tile(serial("c", channels, tile))));
    CHECK(asks_for_next(codegen::prefetch_parts(nest, {"X"}, machine)));
  }
}

void test_passes() {
  auto rows = [](int count, int length, int stride, int vector = 16) {
    auto pass = [&](const std::string& to) {
      Expr index = variable("b") * stride + variable("j") * vector + variable("v");
      return serial("j", length / vector, lanes(vector, store(to, 0, load("X", index))));
    };
    return serial("b", count, nest::make_sequence({pass("Y"), pass("Z")}));
  };
  CpuMachine machine;
  auto asks = [&](const Nest& nest) {
    return asks_for_next(codegen::prefetch_passes(nest, {"X"}, machine), 1);
  };
  CHECK(asks(rows(3, 128, 128)));
  CHECK(asks(rows(3, 1024, 1040)));
  CHECK(asks(rows(3, 4096, 4096)));
  CHECK(asks(rows(3, 24 * 43, 24 * 43, 24)));
  CHECK(!asks(rows(3, 4112, 4112)));
  CHECK(!asks(rows(3, 112, 112)));
  machine.first_cache_bytes = 8 << 10;
  CHECK(!asks(rows(3, 1040, 1040)));
  machine = CpuMachine();
  machine.page_bytes = 16 << 10;
  CHECK(!asks(rows(3, 496, 496)));
}

}  // namespace

int main() {
  test_footprints();
  test_places_that_nobody_knows_are_no_reads();
  test_panels();
  test_panels_follow_the_machine();
  test_parts();
  test_runs();
  test_passes();
  return check::finish();
}
