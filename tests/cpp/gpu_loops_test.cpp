// Launches from loops over blocks and threads: several loops of one launch, and their description.
#include "codegen/cuda/gpu_loops.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "codegen/lower_nest.h"

namespace {

using namespace tc;
using namespace tc::ir;
using codegen::GpuLaunch;
using codegen::GpuProgram;
using Halide::Float;
using Halide::Internal::Block;
using nest::Nest;

void expect(bool condition, const std::string& what) {
  check::record(condition, __FILE__, __LINE__, what);
}

/// buffer[index] = 1.
Nest store(const std::string& buffer, const Expr& index) {
  nest::Compute compute;
  compute.buffer = buffer;
  compute.type = Float(32);
  compute.index = index;
  compute.value = Halide::Internal::make_const(Float(32), 1);
  return nest::make(std::move(compute));
}
Expr var(const std::string& name) { return make_variable(name); }
Nest threads(const std::string& name, int extent, const Nest& body) {
  return nest::make_loop(name, 0, extent, nest::Role::Thread, body);
}
Nest blocks(const std::string& name, int extent, const Nest& body) {
  return nest::make_loop(name, 0, extent, nest::Role::Block, body);
}

GpuLaunch launch_of(const Nest& nest) {
  return codegen::make_launch("k", nest, Program(), make_options("default"));
}

bool has_extents(const GpuLaunch& launch, int64_t grid, int64_t x, int64_t y, int64_t z) {
  return launch.grid[0] == grid && launch.grid[1] == 1 && launch.block[0] == x &&
         launch.block[1] == y && launch.block[2] == z;
}

/// The text must have a guard for each loop that is smaller than the largest.
void check_text(const std::string& what, const GpuLaunch& launch,
                const std::vector<std::string>& parts) {
  const std::string text = codegen::print_cuda({{launch}, {}});
  for (const std::string& part : parts)
    expect(text.find(part) != std::string::npos, what + ": no " + part + " in\n" + text);
}

/// The last loop must not decide alone.
void check_successive_loops() {
  for (bool largest_first : {true, false}) {
    Nest small = blocks("b", 3, threads("t", 8, store("A", var("b") * 8 + var("t"))));
    Nest large = blocks("c", 7, threads("u", 96, store("B", var("c") * 96 + var("u"))));
    GpuLaunch launch = launch_of(nest::make_sequence(
        largest_first ? std::vector<Nest>{large, small} : std::vector<Nest>{small, large}));
    expect(has_extents(launch, 7, 96, 1, 1), "loops one after the other");
    check_text("loops one after the other", launch, {"if (bx < 3)", "if (tx < 8)"});
  }
  // Side by side in one loop over blocks, along other axes.
  Nest wide = threads("t", 256, store("A", var("b") * 256 + var("t")));
  Nest high =
      threads("v", 16, threads("u", 16, store("B", var("b") * 256 + var("v") * 16 + var("u"))));
  GpuLaunch launch = launch_of(blocks("b", 5, nest::make_sequence({wide, high})));
  expect(launch.block[0] * launch.block[1] * launch.block[2] <= 1024,
         "a block of too many threads");
  expect(has_extents(launch, 5, 256, 4, 1), "16 x 16 beside 256");
  check_text("16 x 16 beside 256", launch, {"if (tx < 16)", "if (ty < 1)"});
}

void check_description() {
  GpuLaunch launch = launch_of(threads("t", 32, store("A", var("t"))));
  GpuProgram program = {{launch}, {}};
  expect(codegen::describe_launches(program).find("\"shared_bytes\": 0") != std::string::npos,
         codegen::describe_launches(program));
  program.launches[0].body = Halide::Internal::Allocate::make(
      "s", Float(32), Halide::MemoryType::GPUShared, {15000}, Halide::Internal::const_true(),
      Block::make(codegen::lower(threads("t", 32, store("s", var("t")))), launch.body));
  expect(codegen::describe_launches(program).find("\"shared_bytes\": 60000") != std::string::npos,
         codegen::describe_launches(program));
}

}  // namespace

int main() {
  try {
    check_successive_loops();
    check_description();
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return check::finish();
}
