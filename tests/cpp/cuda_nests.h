// Nests for CUDA, put together by hand: operands copied to shared memory by all threads of a block,
// and reductions over the threads of a block.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/cuda/gpu_loops.h"
#include "nest/nest.h"

namespace cuda_nests {

using tc::ir::Expr;
using tc::ir::Reduction;
using tc::nest::Memory;
using tc::nest::Nest;
using tc::nest::Role;

inline Expr var(const std::string& name) { return tc::ir::make_variable(name); }
inline Expr load(const std::string& buffer, const Expr& index) {
  return tc::ir::make_load(Halide::Float(32), buffer, index);
}
inline Nest compute(const std::string& buffer, const Expr& index, const Expr& value,
                    Reduction reduction = Reduction::None) {
  tc::nest::Compute made;
  made.buffer = buffer;
  made.type = value.type();
  made.index = index;
  made.value = value;
  made.reduction = reduction;
  return tc::nest::make(std::move(made));
}
/// The same of a reduction over the threads around it.
inline Nest over_threads(const Nest& nest) {
  tc::nest::Compute made = *tc::nest::as<tc::nest::Compute>(nest);
  made.over_threads = true;
  return tc::nest::make(std::move(made));
}
inline Nest loop(Role role, const std::string& name, int extent, const Nest& body) {
  return tc::nest::make_loop(name, 0, extent, role, body);
}
inline Nest sequence(const std::vector<Nest>& parts) { return tc::nest::make_sequence(parts); }
inline Nest copy(const Nest& body) { return tc::nest::make(tc::nest::Copy{body}); }
inline Nest guard(const Expr& condition, const Nest& then) {
  return tc::nest::make(tc::nest::Guard{condition, then, nullptr});
}
inline Nest buffer(const std::string& name, int elements, Memory memory, const Nest& body) {
  return tc::nest::make(tc::nest::Buffer{name, Halide::Float(32), elements, memory, body});
}

inline tc::codegen::GpuProgram launch(const std::string& name, const Nest& nest,
                                      const std::map<std::string, int64_t>& elements) {
  std::set<std::string> buffers;
  for (const auto& [buffer, count] : elements) buffers.insert(buffer);
  tc::nest::verify(nest, buffers);
  tc::codegen::GpuLaunch launch =
      tc::codegen::make_launch(name, nest, tc::ir::Program(), tc::make_options("default"));
  for (tc::codegen::GpuBuffer& buffer : launch.buffers) buffer.elements = elements.at(buffer.name);
  return {{launch}, {}};
}

/// C(m, n) = sum over k of A(m, k) B(n, k), of 48 x 32 x 40: blocks of 16 x 16 results, two rows
/// for each of 8 x 16 threads, 10 terms at a time in shared memory, B's transposed beside a gap.
inline tc::codegen::GpuProgram tmm() {
  const int M = 48, N = 32, K = 40, side = 16, rows = 2, terms = 10, pitch = side + 1;
  const Expr row = var("bm") * side + var("ty") * rows, column = var("bn") * side + var("tx");
  const Expr k0 = var("k0") * terms;
  const Nest copy_a =
      copy(loop(Role::Serial, "ai", side,
                loop(Role::Serial, "ak", terms,
                     compute("As", var("ai") * terms + var("ak"),
                             load("A", (var("bm") * side + var("ai")) * K + k0 + var("ak"))))));
  const Nest copy_b =
      copy(loop(Role::Serial, "bj", side,
                loop(Role::Serial, "bk", terms,
                     compute("Bs", var("bk") * pitch + var("bj"),
                             load("B", (var("bn") * side + var("bj")) * K + k0 + var("bk"))))));
  const Nest products =
      loop(Role::Serial, "k", terms,
           loop(Role::Unrolled, "r", rows,
                compute("sums", var("r"),
                        load("As", (var("ty") * rows + var("r")) * terms + var("k")) *
                            load("Bs", var("k") * pitch + var("tx")),
                        Reduction::Sum)));
  const Nest steps = loop(Role::Serial, "k0", K / terms, sequence({copy_a, copy_b, products}));
  const Nest clear = loop(Role::Unrolled, "c", rows, compute("sums", var("c"), Expr(0.0f)));
  const Nest write = loop(Role::Unrolled, "w", rows,
                          compute("C", (row + var("w")) * N + column, load("sums", var("w"))));
  Nest body = buffer("sums", rows, Memory::Stack, sequence({clear, steps, write}));
  body =
      buffer("As", side * terms, Memory::Shared, buffer("Bs", pitch * terms, Memory::Shared, body));
  body = loop(Role::Thread, "ty", side / rows, loop(Role::Thread, "tx", side, body));
  body = loop(Role::Block, "bm", M / side, loop(Role::Block, "bn", N / side, body));
  return launch("nest_tmm", body, {{"C", M * N}, {"A", M * K}, {"B", N * K}});
}

/// y = softmax of the rows of x, 5 x 200, by 48 threads a row, which is no power of two.
inline tc::codegen::GpuProgram softmax() {
  const int N = 5, D = 200, threads = 48;
  const Expr n = var("n"), t = var("t");
  const auto rounds = [&](const std::string& name, const Nest& body) {
    return loop(Role::Serial, name, (D + threads - 1) / threads,
                guard(var(name) * threads + t < D, body));
  };
  const auto place = [&](const std::string& round) { return n * D + var(round) * threads + t; };
  const auto above_top = [&](const std::string& round) {
    return tc::ir::math("exp", Halide::Float(32), {load("x", place(round)) - load("top", n)});
  };
  const Expr least = tc::ir::identity(Reduction::Max, Halide::Float(32));
  const Nest largest = sequence({
      guard(t == 0, compute("top", n, least)),
      compute("own", 0, least),
      rounds("r0", compute("own", 0, load("x", place("r0")), Reduction::Max)),
      over_threads(compute("top", n, load("own", 0), Reduction::Max)),
  });
  const Nest sum = sequence({
      guard(t == 0, compute("sum", n, Expr(0.0f))),
      compute("own", 0, Expr(0.0f)),
      rounds("r1", compute("own", 0, above_top("r1"), Reduction::Sum)),
      over_threads(compute("sum", n, load("own", 0), Reduction::Sum)),
  });
  const Nest quotients = rounds("r2", compute("y", place("r2"), above_top("r2") / load("sum", n)));
  const Nest body =
      loop(Role::Block, "n", N,
           loop(Role::Thread, "t", threads,
                buffer("own", 1, Memory::Stack, sequence({largest, sum, quotients}))));
  return launch("nest_softmax", body, {{"y", N * D}, {"x", N * D}, {"top", N}, {"sum", N}});
}

}  // namespace cuda_nests
