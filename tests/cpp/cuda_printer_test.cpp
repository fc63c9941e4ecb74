// Prints hand-built statements as CUDA, and compiles each text with NVRTC for sm_80 and sm_90:
// without spills and without local memory. `--print DIRECTORY` writes <case>.cu and <case>.json
// there instead, which tests/codegen/test_cuda_emulator.py runs on the CPU and compares with numpy.
#include "codegen/cuda/cuda_printer.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "cuda_nests.h"
#include "ir/program.h"
#include "lang/sema/builtins.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/nvrtc.h"

namespace {

using namespace Halide::Internal;
using Halide::Bool;
using Halide::cast;
using Halide::Float;
using Halide::Int;
using Halide::UInt;
using tc::codegen::GpuBuffer;
using tc::codegen::GpuLaunch;
using tc::codegen::GpuProgram;
using tc::ir::Expr;
using tc::ir::ForType;
using tc::ir::make_for;
using tc::ir::make_load;
using tc::ir::make_store;
using tc::ir::make_variable;
using tc::ir::Stmt;
using tc::ir::Type;

void expect(bool condition, const std::string& what) {
  check::record(condition, __FILE__, __LINE__, what);
}

// ---- short forms

Expr var(const std::string& name) { return make_variable(name); }
Expr f32(const std::string& buffer, const Expr& index) {
  return make_load(Float(32), buffer, index);
}
Stmt threads(const std::string& name, int extent, const Stmt& body) {
  return make_for(name, 0, extent, ForType::GPUThread, body);
}
Stmt blocks(const std::string& name, int extent, const Stmt& body) {
  return make_for(name, 0, extent, ForType::GPUBlock, body);
}
Stmt serial(const std::string& name, int extent, const Stmt& body) {
  return make_for(name, 0, extent, ForType::Serial, body);
}
Stmt unrolled(const std::string& name, int extent, const Stmt& body) {
  return make_for(name, 0, extent, ForType::Unrolled, body);
}
Stmt allocate(const std::string& name, Type type, int elements, Halide::MemoryType where,
              const Stmt& body) {
  return Allocate::make(name, type, where, {elements}, const_true(), body);
}
Stmt seq(const std::vector<Stmt>& statements) { return Block::make(statements); }
Expr intrinsic(Type type, Call::IntrinsicOp op, const std::vector<Expr>& args) {
  return Call::make(type, op, args, Call::PureIntrinsic);
}

GpuBuffer in(const std::string& name, Type type, int64_t elements) {
  return {name, type, false, elements};
}
GpuBuffer out(const std::string& name, Type type, int64_t elements) {
  return {name, type, true, elements};
}
/// The names that cases give their loops over blocks and threads.
const std::map<std::string, int> kAxes = {{"block", 0},   {"thread", 0},   {"m.block", 1},
                                          {"n.block", 0}, {"m.thread", 1}, {"n.thread", 0},
                                          {"y", 1}};

GpuLaunch launch(const std::string& name, const Stmt& body, const std::vector<GpuBuffer>& buffers,
                 const std::vector<int>& grid, const std::vector<int>& block) {
  GpuLaunch result;
  result.name = name;
  result.body = body;
  result.axes = kAxes;
  result.buffers = buffers;
  for (size_t i = 0; i < grid.size(); ++i) result.grid[i] = grid[i];
  for (size_t i = 0; i < block.size(); ++i) result.block[i] = block[i];
  return result;
}

/// One thread for each of `n` elements, and the statement that `make` gives for its index.
GpuLaunch elementwise(const std::string& name, int n, const std::vector<GpuBuffer>& buffers,
                      const std::function<Stmt(Expr)>& make) {
  const std::string x = "thread";
  return launch(name, threads(x, n, make(var(x))), buffers, {1}, {n});
}

// ---- the cases

GpuProgram add() {
  const std::string b = "block", t = "thread";
  const Expr i = var(b) * 256 + var(t);
  const Expr sum = f32("A", i) + make_variable("alpha", Float(32)) * f32("B", i);
  const Stmt body = IfThenElse::make(i < 1000, make_store("C", i, sum));
  GpuLaunch l = launch(
      "add", blocks(b, 4, threads(t, 256, body)),
      {out("C", Float(32), 1000), in("A", Float(32), 1000), in("B", Float(32), 1000)}, {4}, {256});
  l.scalars = {{"alpha", Float(32)}};
  return {{l}, {}};
}

/// C = A B on 48x32x40, a 16x16 block with two rows a thread. `tile_k` elements of k are staged.
GpuProgram matmul(const std::string& name, bool barriers, int tile_k = 8, int padding = 0) {
  const int M = 48, N = 32, K = 40;
  const std::string by = "m.block", bx = "n.block";
  const std::string ty = "m.thread", tx = "n.thread";
  const Expr row = var(by) * 16 + var(ty), column = var(bx) * 16 + var(tx);
  const auto memory = Halide::MemoryType::GPUShared;
  const Expr k0 = var("k0") * tile_k;
  // Rows ty and ty + 8; the tile's columns are loaded in a loop over its width.
  const Stmt load_a = make_for(
      "c", var(tx), (tile_k - var(tx) + 15) / 16, ForType::Serial,
      unrolled("r", 2,
               make_store(
                   "As", (var(ty) + var("r") * 8) * tile_k + var(tx) + (var("c") - var(tx)) * 16,
                   f32("A", (row + var("r") * 8) * K + k0 + var(tx) + (var("c") - var(tx)) * 16))));
  const Stmt load_b = make_for("c", 0, (tile_k - var(ty) + 7) / 8, ForType::Serial,
                               make_store("Bs", (var(ty) + var("c") * 8) * 16 + var(tx),
                                          f32("B", (k0 + var(ty) + var("c") * 8) * N + column)));
  const Expr product =
      f32("As", (var(ty) + var("r") * 8) * tile_k + var("k")) * f32("Bs", var("k") * 16 + var(tx));
  const Stmt compute = serial(
      "k", tile_k, unrolled("r", 2, make_store("acc", var("r"), f32("acc", var("r")) + product)));
  const Stmt barrier = barriers ? tc::codegen::make_barrier() : Evaluate::make(0);
  const Stmt steps = serial("k0", K / tile_k, seq({load_a, load_b, barrier, compute, barrier}));
  const Stmt clear = unrolled("r", 2, make_store("acc", var("r"), make_zero(Float(32))));
  const Stmt write =
      unrolled("r", 2, make_store("C", (row + var("r") * 8) * N + column, f32("acc", var("r"))));
  Stmt body =
      allocate("acc", Float(32), 2, Halide::MemoryType::Register, seq({clear, steps, write}));
  body = allocate("As", Float(32), 16 * tile_k + padding, memory,
                  allocate("Bs", Float(32), 16 * tile_k + padding, memory, body));
  body = blocks(by, M / 16, blocks(bx, N / 16, threads(ty, 8, threads(tx, 16, body))));
  return {
      {launch(name, body,
              {out("C", Float(32), M * N), in("A", Float(32), M * K), in("B", Float(32), K * N)},
              {N / 16, M / 16}, {16, 8})},
      {}};
}

/// S[b] = sum of A[b, 0:256], as a tree in shared memory.
GpuProgram reduce_tree(const std::string& name, bool barriers) {
  const std::string b = "block", t = "thread";
  const Stmt barrier = barriers ? tc::codegen::make_barrier() : Evaluate::make(0);
  const Stmt load = threads(t, 256, make_store("s", var(t), f32("A", var(b) * 256 + var(t))));
  std::vector<Stmt> steps = {load, barrier};
  for (int half = 128; half > 0; half /= 2) {
    steps.push_back(
        threads(t, half, make_store("s", var(t), f32("s", var(t)) + f32("s", var(t) + half))));
    // The last step's thread reads its own sum.
    if (half > 1) steps.push_back(barrier);
  }
  steps.push_back(threads(t, 1, make_store("S", var(b), f32("s", 0))));
  const Stmt body = allocate("s", Float(32), 256, Halide::MemoryType::GPUShared, seq(steps));
  return {{launch(name, blocks(b, 3, body), {out("S", Float(32), 3), in("A", Float(32), 768)}, {3},
                  {256})},
          {}};
}

/// The same through shuffles: a sum of 32 in each warp.
GpuProgram reduce_warp() {
  const std::string b = "block", t = "thread";
  std::vector<Stmt> steps = {make_store("r", 0, f32("A", var(b) * 64 + var(t)))};
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    steps.push_back(make_store("r", 0, f32("r", 0) + tc::codegen::shuffle_xor(f32("r", 0), lanes)));
  }
  steps.push_back(
      IfThenElse::make(var(t) % 32 == 0, make_store("S", var(b) * 2 + var(t) / 32, f32("r", 0))));
  const Stmt body = allocate("r", Float(32), 1, Halide::MemoryType::Stack, seq(steps));
  return {{launch("reduce_warp", blocks(b, 3, threads(t, 64, body)),
                  {out("S", Float(32), 6), in("A", Float(32), 192)}, {3}, {64})},
          {}};
}

const std::map<std::string, Type>& all_types() {
  static const std::map<std::string, Type> types = {{"bool", Bool()},
                                                    {"int8", Int(8)},
                                                    {"int16", Int(16)},
                                                    {"int32", Int(32)},
                                                    {"int64", Int(64)},
                                                    {"uint8", UInt(8)},
                                                    {"uint16", UInt(16)},
                                                    {"uint32", UInt(32)},
                                                    {"uint64", UInt(64)},
                                                    {"float16", Float(16)},
                                                    {"bfloat16", Halide::BFloat(16)},
                                                    {"float32", Float(32)},
                                                    {"float64", Float(64)}};
  return types;
}

/// C = (A + B) * A - B and the smaller and larger of A and B, in every type, through a shared and a
/// local array of the type.
GpuProgram types() {
  GpuProgram program;
  for (const auto& [name, type] : all_types()) {
    const std::string t = "thread";
    const Expr a = make_load(type, "A", var(t)), b = make_load(type, "B", var(t));
    const Expr s = make_load(type, "s", var(t)), l = make_load(type, "l", 0);
    const Expr value = type.is_bool() ? (s && !b) || (b && !s) : (s + b) * l - b;
    const Stmt use = seq({make_store("l", 0, a), make_store("C", var(t), value),
                          make_store("C", var(t) + 64, Min::make(a, b)),
                          make_store("C", var(t) + 128, Max::make(a, b))});
    const Stmt load =
        threads(t, 64, make_store("s", 63 - var(t), make_load(type, "A", 63 - var(t))));
    Stmt body = seq({load, tc::codegen::make_barrier(), threads(t, 64, use)});
    body = allocate("s", type, 64, Halide::MemoryType::GPUShared,
                    allocate("l", type, 1, Halide::MemoryType::Stack, body));
    program.launches.push_back(launch("types_" + name, body,
                                      {out("C", type, 192), in("A", type, 64), in("B", type, 64)},
                                      {1}, {64}));
  }
  return program;
}

/// Every type to every other.
GpuProgram casts() {
  GpuProgram program;
  for (const auto& [from_name, from] : all_types()) {
    std::vector<GpuBuffer> buffers = {in("A", from, 16)};
    for (const auto& [to_name, to] : all_types()) buffers.push_back(out(to_name, to, 16));
    program.launches.push_back(
        elementwise("casts_" + from_name, 16, buffers, [&, type = from](const Expr& i) {
          std::vector<Stmt> stores;
          for (const auto& [to_name, to] : all_types()) {
            const Expr loaded = make_load(type, "A", i);
            stores.push_back(make_store(to_name, i, type == to ? loaded : Cast::make(to, loaded)));
          }
          return seq(stores);
        }));
  }
  return program;
}

/// Division and remainder, both kinds, by values (zero and negative ones too) and by constants.
GpuProgram division() {
  GpuProgram program;
  for (const char* name : {"int8", "int32", "int64", "uint32"}) {
    const Type type = all_types().at(name);
    program.launches.push_back(elementwise(
        std::string("division_") + name, 256,
        {out("C", type, 256 * 10), in("A", type, 256), in("B", type, 256)}, [&](const Expr& i) {
          const Expr a = make_load(type, "A", i), b = make_load(type, "B", i);
          const auto number = [&](int n) { return make_const(type, n); };
          const std::vector<Expr> values = {Div::make(a, b),
                                            Mod::make(a, b),
                                            intrinsic(type, Call::div_round_to_zero, {a, b}),
                                            intrinsic(type, Call::mod_round_to_zero, {a, b}),
                                            Div::make(a, number(8)),
                                            Mod::make(a, number(8)),
                                            Div::make(a, number(7)),
                                            Mod::make(a, number(7)),
                                            Div::make(a, number(type.is_uint() ? 3 : -3)),
                                            Mod::make(a, number(type.is_uint() ? 3 : -3))};
          std::vector<Stmt> stores;
          for (size_t k = 0; k < values.size(); ++k) {
            stores.push_back(make_store("C", i + int(256 * k), values[k]));
          }
          return seq(stores);
        }));
  }
  // Indices of a loop are known not to be negative: plain C.
  program.launches.push_back(
      elementwise("division_indices", 64, {out("C", Int(32), 64)}, [](const Expr& i) {
        return serial("k", 3,
                      make_store("C", i, make_load(Int(32), "C", i) + (i * 3 + var("k")) / 5 % 7));
      }));
  return program;
}

/// Lets, conditions, lazy branches, NaN, literals, names that C++ or CUDA has already.
GpuProgram control() {
  GpuProgram program;
  program.launches.push_back(elementwise(
      "control", 64, {out("C", Float(32), 64 * 8), in("A", Float(32), 64)}, [](const Expr& i) {
        const Expr a = f32("A", i), t = var("t.u"), shadowed = make_variable("float", Float(32));
        const auto store = [&](int k, const Expr& value) {
          return make_store("C", i + 64 * k, value);
        };
        const Stmt branches = IfThenElse::make(
            t < 8, store(1, make_const(Float(32), 1)),
            IfThenElse::make(Let::make("q", t / 2, var("q") < 8),
                             store(1, make_const(Float(32), 2)),
                             IfThenElse::make(t < 32, store(1, make_const(Float(32), 3)),
                                              store(1, make_const(Float(32), 4)))));
        // The load would be outside where the condition does not hold.
        const Expr lazy =
            Select::make(i >= 1, Let::make("j", i - 1, f32("A", var("j")) + f32("A", var("j"))), a);
        const Expr once = intrinsic(Float(32), Call::if_then_else, {i < 63, f32("A", i + 1), a});
        const Expr chosen = Select::make((i > 3 && f32("A", i - 4) > 0) || i == 2 || !(i < 60),
                                         make_const(Float(32), 5), make_const(Float(32), 6));
        return LetStmt::make(
            "t.u", i,
            LetStmt::make("float", a * 2,
                          seq({store(0, shadowed + Let::make("float", shadowed + 1, shadowed * 3)),
                               branches, store(2, lazy), store(3, once), store(4, chosen),
                               store(5, Min::make(a, make_const(Float(32), 0.25))),
                               store(6, Max::make(make_const(Float(32), 0.25), a)),
                               LetStmt::make("t.u", i + 1, store(7, cast<float>(var("t.u"))))})));
      }));
  program.launches.push_back(elementwise(
      "literals", 1,
      {out("f", Float(32), 7), out("d", Float(64), 5), out("i", Int(32), 3), out("l", Int(64), 3),
       out("u", UInt(64), 1), out("h", Float(16), 3)},
      [](const Expr& i) {
        std::vector<Stmt> stores;
        const auto add = [&](const std::string& buffer, const std::vector<Expr>& values) {
          for (size_t k = 0; k < values.size(); ++k) {
            stores.push_back(make_store(buffer, i + int(k), values[k]));
          }
        };
        const auto f = [](int bits, double x) { return FloatImm::make(Float(bits), x); };
        add("f", {f(32, 0.1), f(32, 1e-45), f(32, 3.4028234663852886e38), f(32, INFINITY),
                  f(32, -INFINITY), f(32, NAN), f(32, -0.0)});
        add("d", {f(64, 0.1), f(64, 5e-324), f(64, 3), f(64, -INFINITY), f(64, NAN)});
        add("i", {IntImm::make(Int(32), INT32_MIN), IntImm::make(Int(32), -7),
                  Sub::make(Expr(3), IntImm::make(Int(32), -4))});
        add("l", {IntImm::make(Int(64), INT64_MIN), IntImm::make(Int(64), INT64_MAX),
                  make_const(Int(64), int64_t(1) << 40)});
        add("u", {UIntImm::make(UInt(64), UINT64_MAX)});
        add("h", {f(16, 0.333251953125), f(16, -INFINITY), f(16, 65504)});
        return seq(stores);
      }));
  // No two of these may become one identifier.
  program.launches.push_back(elementwise(
      "names", 32,
      {out("a.b", Float(32), 32), in("a_b", Float(32), 32), in("threadIdx", Float(32), 32),
       in("tx", Float(32), 32), in("expf", Float(32), 32), in("__x", Float(32), 32)},
      [](const Expr& i) {
        const Expr e = tc::ir::math("exp", Float(32), {f32("expf", i)});
        return make_store("a.b", i,
                          f32("a_b", i) + f32("threadIdx", i) + f32("tx", i) + e + f32("__x", i));
      }));
  return program;
}

/// The names of builtins that ir::math carries.
std::vector<std::string> builtin_names() {
  std::vector<std::string> names = tc::lang::all_builtin_names();
  names.erase(std::remove_if(
                  names.begin(), names.end(),
                  [](const std::string& name) { return tc::lang::find_builtin(name)->composed; }),
              names.end());
  return names;
}

/// Every builtin of the language, in the three widths of float; the columns of X are its arguments.
GpuProgram math() {
  GpuProgram program;
  const std::vector<std::string> names = builtin_names();
  for (const char* type_name : {"float32", "float64", "float16"}) {
    const Type type = all_types().at(type_name);
    const int count = int(names.size());
    program.launches.push_back(elementwise(
        std::string("math_") + type_name, 32,
        {out("C", type, 32 * count), in("X", type, 32 * 3 * count)}, [&](const Expr& i) {
          std::vector<Stmt> stores;
          for (int k = 0; k < count; ++k) {
            std::vector<Expr> args;
            for (int a = 0; a < tc::lang::find_builtin(names[k])->arity; ++a) {
              args.push_back(make_load(type, "X", i + 32 * (3 * k + a)));
              if (tc::lang::find_builtin(names[k])->integer_argument == a)
                args[a] = Cast::make(Int(32), args[a]);
            }
            const Expr value = tc::ir::math(names[k], type, args);
            stores.push_back(make_store("C", i + 32 * k,
                                        value.type() == type ? value : Cast::make(type, value)));
          }
          return seq(stores);
        }));
  }
  return program;
}

/// Intrinsics of Halide that simplification and rewriting leave in expressions.
GpuProgram intrinsics() {
  GpuProgram program;
  program.launches.push_back(elementwise(
      "intrinsics", 64,
      {out("I", Int(32), 64 * 7), out("F", Float(32), 64), out("B", UInt(8), 64 * 2),
       in("A", Int(32), 64), in("X", Float(32), 64), in("U", UInt(8), 64)},
      [](const Expr& i) {
        const Expr a = make_load(Int(32), "A", i), x = f32("X", i), u = make_load(UInt(8), "U", i);
        const Expr seven = make_const(Int(32), 7);
        std::vector<Stmt> stores;
        const auto add = [&](const std::string& buffer, const std::vector<Expr>& values) {
          for (size_t k = 0; k < values.size(); ++k) {
            stores.push_back(make_store(buffer, i + int(64 * k), values[k]));
          }
        };
        const auto both = [&](Call::IntrinsicOp op) { return intrinsic(Int(32), op, {a, seven}); };
        add("I", {both(Call::bitwise_and), both(Call::bitwise_or), both(Call::bitwise_xor),
                  intrinsic(Int(32), Call::bitwise_not, {a}),
                  intrinsic(Int(32), Call::shift_left, {a, make_const(Int(32), 3)}),
                  intrinsic(Int(32), Call::shift_right, {a, make_const(Int(32), 3)}),
                  Reinterpret::make(Int(32), x)});
        add("F", {Reinterpret::make(Float(32), a)});
        add("B", {intrinsic(UInt(8), Call::bitwise_not, {u}),
                  intrinsic(UInt(8), Call::shift_left, {u, make_const(UInt(8), 3)})});
        return seq(stores);
      }));
  return program;
}

/// Two launches and a temporary between them; indices of 64 bits; a guarded dimension.
GpuProgram chain() {
  const std::string b = "block", t = "thread", y = "y";
  const Expr i = var(b) * 20 + var(t);
  const Stmt square =
      blocks(b, 5, threads(y, 1, threads(t, 20, make_store("T", i, f32("A", i) * f32("A", i)))));
  const Expr wide =
      Cast::make(Int(64), var(b)) * make_const(Int(64), 20) + Cast::make(Int(64), var(t));
  const Stmt rest =
      blocks(b, 5,
             threads(t, 20,
                     make_store("C", wide,
                                make_load(Float(32), "T", wide) + make_variable("h", Float(16)) +
                                    cast<float>(make_variable("n")))));
  GpuLaunch first =
      launch("chain_0", square, {out("T", Float(32), 100), in("A", Float(32), 100)}, {6}, {32, 2});
  GpuLaunch second =
      launch("chain_1", rest, {out("C", Float(32), 100), in("T", Float(32), 100)}, {5}, {32});
  second.scalars = {{"n", Int(32)}, {"h", Float(16)}};
  return {{first, second}, {out("T", Float(32), 100)}};
}

// ---- checks

std::string type_name(Type type) {
  for (const auto& [name, known] : all_types()) {
    if (known == type) return name;
  }
  return "?";
}

std::string description(const GpuProgram& program) {
  std::string text = "{\"launches\": [";
  for (size_t n = 0; n < program.launches.size(); ++n) {
    const GpuLaunch& l = program.launches[n];
    const auto three = [](const int64_t* v) {
      return tc::concat("[", v[0], ", ", v[1], ", ", v[2], "]");
    };
    text +=
        tc::concat(n ? ",\n  " : "\n  ", "{\"kernel\": \"", tc::codegen::kernel_symbol(l.name),
                   "\", \"grid\": ", three(l.grid), ", \"block\": ", three(l.block),
                   ", \"shared_bytes\": ", tc::codegen::dynamic_shared_bytes(l), ", \"args\": [");
    for (size_t i = 0; i < l.buffers.size(); ++i) {
      const GpuBuffer& b = l.buffers[i];
      text += tc::concat(i ? ", " : "", "{\"name\": \"", b.name, "\", \"type\": \"",
                         type_name(b.type), "\", \"written\": ", b.written ? "true" : "false",
                         ", \"elements\": ", b.elements, "}");
    }
    text += "], \"scalars\": [";
    for (size_t i = 0; i < l.scalars.size(); ++i) {
      text += tc::concat(i ? ", " : "", "{\"name\": \"", l.scalars[i].name, "\", \"type\": \"",
                         type_name(l.scalars[i].type), "\"}");
    }
    text += "]}";
  }
  text += "],\n \"builtins\": [";
  bool first = true;
  for (const std::string& name : builtin_names()) {
    text += (first ? "\"" : ", \"") + name + "\"";
    first = false;
  }
  return text + "]}\n";
}

void check_program(const std::string& name, const GpuProgram& program, const char* directory) {
  const std::string source = tc::codegen::print_cuda(program);
  if (directory) {
    std::ofstream(tc::concat(directory, "/", name, ".cu")) << source;
    std::ofstream(tc::concat(directory, "/", name, ".json")) << description(program);
    return;
  }
  for (const char* arch : {"sm_80", "sm_90"}) {
    const tc::runtime::CudaBinary binary = tc::runtime::compile_cuda(source, arch);
    expect(binary.kernels.size() == program.launches.size(),
           tc::concat(name, ": ", binary.kernels.size(), " kernels in the log\n", binary.log));
    expect(binary.log.find("warning") == std::string::npos, name + " warns:\n" + binary.log);
    for (const auto& kernel : binary.kernels) {
      expect(kernel.registers > 0 && kernel.spill_bytes == 0,
             tc::concat(kernel.symbol, " on ", arch, ": ", kernel.registers, " registers, ",
                        kernel.spill_bytes, " bytes spilled"));
      // Large arguments of trigonometric functions are reduced in local memory by CUDA itself.
      if (name != "math") {
        expect(kernel.stack_bytes == 0,
               tc::concat(kernel.symbol, " on ", arch, " has local memory"));
      }
    }
  }
}

template <class Thrown>
void expect_error(const std::string& what, const std::string& part,
                  const std::function<void()>& run) {
  try {
    run();
  } catch (const Thrown& error) {
    expect(std::string(error.what()).find(part) != std::string::npos,
           what + " says: " + error.what());
    return;
  } catch (const std::exception& error) {
    return expect(false, what + " throws another error: " + error.what());
  }
  expect(false, what + " does not throw");
}

void check_refusals() {
  const auto refuses = [](const std::string& what, const std::string& part, const GpuLaunch& l) {
    expect_error<tc::InternalError>(what, part, [&] { tc::codegen::print_cuda({{l}, {}}); });
  };
  const std::string t = "thread";
  const std::vector<GpuBuffer> buffers = {out("C", Float(32), 64)};
  const Stmt store = make_store("C", var(t), make_const(Float(32), 1));
  refuses("a store outside the thread loop", "outside any loop over thread dimension x",
          launch("k", make_store("C", 0, make_const(Float(32), 1)), buffers, {1}, {32}));
  refuses("a store outside the block loop", "outside any loop over block dimension x",
          launch("k", threads(t, 32, store), buffers, {2}, {32}));
  refuses(
      "a barrier under a guard", "a barrier that the others would not reach",
      launch("k", threads(t, 8, seq({store, tc::codegen::make_barrier()})), buffers, {1}, {32}));
  refuses("a loop beyond the block", "33 iterations for 32",
          launch("k", threads(t, 33, store), buffers, {1}, {32}));
  refuses("an unknown name", "\"D\" is neither",
          launch("k", threads(t, 32, make_store("D", var(t), Expr(1.f))), buffers, {1}, {32}));
  refuses("a vector", "expression in a GPU kernel: ramp",
          launch("k",
                 threads(t, 32,
                         make_store("C", Ramp::make(var(t), 1, 4), Broadcast::make(Expr(1.f), 4))),
                 buffers, {1}, {32}));
}

void check_errors() {
  using tc::runtime::compile_cuda;
  expect_error<tc::CompilationError>("a wrong text", "> 2:   undeclared = 1;", [] {
    compile_cuda("extern \"C\" __global__ void f() {\n  undeclared = 1;\n}\n", "sm_80");
  });
  expect_error<tc::CompilationError>("an unknown architecture", "does not compile for \"sm_12\"",
                                     [] { compile_cuda("", "sm_12"); });
  tc::runtime::CudaTarget target;
  target.arch = "sm_90";
  target.offline = true;
  const GpuProgram program = add();
  const tc::runtime::CudaKernel kernel(make_cuda_program(program), {"A", "B", "alpha", "C"},
                                       target);
  expect(kernel.text("cuda_source").find("tc_add(float* C, const float* A") != std::string::npos,
         "the source of a kernel");
  expect(kernel.number("launches") == 1 && kernel.number("spill_bytes") == 0 &&
             kernel.number("registers") > 0 && kernel.number("shared_bytes") == 0,
         "the numbers of a kernel");
  expect(kernel.binary().size() > 100, "the binary of a kernel");
  expect_error<tc::UsageError>("an offline launch", "cannot be launched", [&] {
    void* pointers[4] = {};
    kernel.launch(tc_host(), pointers);
  });
  // From a cache nothing is compiled again.
  tc::runtime::CudaBinary kept;
  kept.cubin = kernel.binary();
  kept.log = kernel.text("build_log");
  tc::runtime::CudaProgram cached = make_cuda_program(program);
  cached.source = "text";
  const tc::runtime::CudaKernel again(cached, {"A", "B", "alpha", "C"}, target, kept);
  expect(again.binary() == kernel.binary() && again.text("cuda_source") == "text" &&
             again.number("registers") == kernel.number("registers"),
         "a kept kernel");
  expect_error<tc::InternalError>("a missing argument", "buffer B of tc_add", [&] {
    tc::runtime::CudaKernel(cached, {"A", "alpha", "C"}, target, kept);
  });
  const GpuProgram large = matmul("matmul_dynamic", true, 8, 8192);
  const tc::runtime::CudaKernel dynamic(make_cuda_program(large), {"A", "B", "C"}, target);
  expect(dynamic.number("shared_bytes") == 2 * 4 * (16 * 8 + 8192), "dynamic shared memory");
}

}  // namespace

int main(int argc, char** argv) {
  const char* directory = argc > 2 && std::string(argv[1]) == "--print" ? argv[2] : nullptr;
  const std::map<std::string, std::function<GpuProgram()>> cases = {
      {"add", add},
      {"matmul", [] { return matmul("matmul", true); }},
      {"matmul_wide", [] { return matmul("matmul_wide", true, 20); }},
      {"matmul_dynamic", [] { return matmul("matmul_dynamic", true, 8, 8192); }},
      {"matmul_without_barriers", [] { return matmul("matmul_without_barriers", false); }},
      {"reduce_tree", [] { return reduce_tree("reduce_tree", true); }},
      {"reduce_without_barriers", [] { return reduce_tree("reduce_without_barriers", false); }},
      {"reduce_warp", reduce_warp},
      {"types", types},
      {"casts", casts},
      {"division", division},
      {"control", control},
      {"math", math},
      {"intrinsics", intrinsics},
      {"chain", chain},
      {"nest_tmm", cuda_nests::tmm},
      {"nest_softmax", cuda_nests::softmax}};
  for (const auto& [name, make] : cases) {
    try {
      check_program(name, make(), directory);
    } catch (const std::exception& error) {
      expect(false, name + ": " + error.what());
    }
  }
  if (directory) return check::finish();
  check_refusals();
  check_errors();
  return check::finish();
}
