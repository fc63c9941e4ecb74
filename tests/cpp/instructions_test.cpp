// Instructions: what their texts say, which values are theirs, and nests that name them.
#include "isa/instructions.h"

#include <functional>
#include <map>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "codegen/cpu/cpu_jit.h"
#include "nest/nest.h"
#include "tc/tc.hpp"
#include "texts.h"

namespace {

using namespace tc;
using ir::Expr;
using nest::Nest;
using nest::Role;

/// The instruction that computes the statement of a text, or "".
std::string matched(const std::string& text) {
  const ir::Program program = ir::specialize(texts::infer(text), {{"M", 8}, {"K", 12}});
  const isa::Instruction* found = isa::match(program.statements.back());
  return found ? found->name : "";
}

void check_matches() {
  const auto product = [](const std::string& a, const std::string& b, const std::string& value) {
    return matched("def f(" + a + "(M,K) A, " + b + "(K) B) -> (C) { C(m) +=! " + value + " }");
  };
  const std::string value = "int32(A(m,k)) * int32(B(k))";
  CHECK_EQ(product("uint8", "int8", value), "vpdpbusd");
  CHECK_EQ(product("int8", "uint8", value), "vpdpbusd");
  CHECK_EQ(product("uint8", "int8", "int32(B(k)) * int32(A(m,k))"), "vpdpbusd");
  CHECK_EQ(product("int16", "int16", value), "vpdpwssd");
  // Other types, other trees.
  CHECK_EQ(product("int8", "int8", value), "vpdpbssd");
  CHECK_EQ(product("uint8", "uint8", value), "vpdpbuud");
  CHECK_EQ(product("uint8", "int16", value), "");
  CHECK_EQ(product("uint8", "int8", "int64(A(m,k)) * int64(B(k))"), "");
  CHECK_EQ(product("uint8", "int8", "int32(A(m,k)) * int32(B(k)) + 1"), "");
  CHECK_EQ(product("uint8", "int8", "int32(A(m,k)) * 3"), "");
  CHECK_EQ(matched("def f(uint8(M,K) A, int8(K) B) -> (C) {"
                   " C(m) max=! int32(A(m,k)) * int32(B(k)) }"),
           "");
  CHECK_EQ(matched("def f(uint8(M,K) A, int8(K) B) -> (C) {"
                   " C(m) +=! k < m ? int32(A(m,k)) * int32(B(k)) : 0 }"),
           "");
}

void check_operands() {
  const isa::Instruction& instruction = *isa::find_instruction("vpdpbusd");
  CHECK_EQ(instruction.terms, 4);
  CHECK(!isa::find_instruction("vpdpbusds"));
  // In the order of the instruction's, whatever that of the text.
  const ir::Program program = texts::infer(
      "def f(int8(M,K) A, uint8(K) B) -> (C) { C(m) +=! int32(A(m,k)) * int32(B(k)) }");
  const auto operands = isa::match_value(instruction, program.statements[0].value);
  CHECK(operands.has_value());
  CHECK_EQ(ir::plain_text((*operands)[0]), "B(k)");
  CHECK_EQ(ir::plain_text((*operands)[1]), "A(m, k)");
  // Lanes of four neighbours each, or the same four for all.
  CHECK(isa::fits_register(instruction, 4, 1));
  CHECK(isa::fits_register(instruction, 0, 1));
  CHECK(!isa::fits_register(instruction, 1, 1));
  CHECK(!isa::fits_register(instruction, 4, 64));
}

// ---- nests

constexpr int kLanes = 8, kBlocks = 5;

Expr var(const std::string& name) { return ir::make_variable(name); }
Expr load(const std::string& buffer, ir::Type type, const Expr& index) {
  using namespace Halide::Internal;
  return Load::make(type, buffer, index, Halide::Buffer<>(), nest::alignment_of(buffer, type),
                    const_true(), ModulusRemainder());
}

/// c(lane) += sum of a(block, term) * b(at(block, lane, term)), so many terms at a time.
Nest product(const Expr& at, int terms, const std::string& instruction = "vpdpbusd") {
  nest::Compute sum;
  sum.buffer = "c";
  sum.type = Halide::Int(32);
  sum.index = var("lane");
  sum.value = Halide::cast<int32_t>(load("a", Halide::UInt(8), var("block") * 4 + var("term"))) *
              Halide::cast<int32_t>(load("b", Halide::Int(8), at));
  sum.reduction = ir::Reduction::Sum;
  sum.parameter = nest::alignment_of("c", sum.type);
  const Nest inner = nest::make_loop(
      "lane", 0, kLanes, Role::Vector,
      nest::make_loop("term", 0, terms, Role::Unrolled, nest::make(std::move(sum))));
  return nest::make_loop("block", 0, kBlocks, Role::Serial,
                         nest::make(nest::Intrinsic{instruction, inner}));
}

std::string refusal(const Nest& nest) {
  try {
    nest::verify(nest, {"a", "b", "c"});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

void check_verifier() {
  CHECK_EQ(refusal(product(var("lane") * 4 + var("term"), 4)), "accepted");
  CHECK_HAS(refusal(product(var("lane"), 4, "vpdpbusds")), "there is no instruction vpdpbusds");
  CHECK_HAS(refusal(product(var("lane"), 5)), "vpdpbusd adds up 4 terms, not 5");
  CHECK_HAS(refusal(product(var("lane"), 2, "vpdpwssd")), "is not what vpdpwssd computes");
  CHECK_HAS(nest::to_string(product(var("lane"), 4)), "intrinsic vpdpbusd\n");
}

/// Runs a product whose second operand lies like this.
void check_product(const std::function<int(int, int, int)>& at, const Expr& index, int terms) {
  std::vector<uint8_t> a(kBlocks * 4);
  std::vector<int8_t> b(kBlocks * 4 * kLanes);
  for (size_t k = 0; k < a.size(); ++k) a[k] = static_cast<uint8_t>(255 - k * 7);
  for (size_t k = 0; k < b.size(); ++k) b[k] = static_cast<int8_t>(k * 37 - 128);
  std::vector<int32_t> c(kLanes + 1, 100), wanted = c;
  for (int block = 0; block < kBlocks; ++block)
    for (int lane = 0; lane < kLanes; ++lane)
      for (int term = 0; term < terms; ++term)
        wanted[lane] += a[block * 4 + term] * b[at(block, lane, term)];
  const Nest nest = product(index, terms);
  nest::verify(nest, {"a", "b", "c"});
  std::vector<runtime::Workspace> workspaces;
  StageClock clock;
  const auto kernel = codegen::compile_cpu("nest", nest, {"a", "b", "c"}, workspaces,
                                           codegen::BufferFacts(), codegen::Texts::Short, clock);
  const void* pointers[] = {a.data(), b.data(), c.data()};
  kernel->launch(*tc_default_host(), const_cast<void* const*>(pointers));
  check::record(c == wanted, __FILE__, __LINE__,
                concat(terms, " terms at ", texts::to_text(index)));
}

void check_layouts() {
  const Expr block = var("block"), lane = var("lane"), term = var("term");
  for (int terms = 1; terms <= 4; ++terms) {
    // As in a register.
    check_product([](int q, int i, int j) { return (q * kLanes + i) * 4 + j; },
                  (block * kLanes + lane) * 4 + term, terms);
    // Rows of lanes, and of terms.
    check_product([](int q, int i, int j) { return (q * 4 + j) * kLanes + i; },
                  (block * 4 + term) * kLanes + lane, terms);
    check_product([](int q, int i, int j) { return i * 4 * kBlocks + q * 4 + j; },
                  lane * (4 * kBlocks) + block * 4 + term, terms);
    // In blocks of four lanes; backwards.
    check_product([](int q, int i, int j) { return (q * kLanes + i / 4 * 4) * 4 + j * 4 + i % 4; },
                  (block * kLanes + lane / 4 * 4) * 4 + term * 4 + lane % 4, terms);
    check_product([](int q, int i, int j) { return (q * kLanes + kLanes - 1 - i) * 4 + 3 - j; },
                  (block * kLanes + (kLanes - 1) - lane) * 4 + 3 - term, terms);
    // The same for all lanes.
    check_product([](int q, int, int j) { return q * 4 + j; }, block * 4 + term, terms);
  }
}

}  // namespace

int main() {
  try {
    check_matches();
    check_operands();
    check_verifier();
    check_layouts();
  } catch (const std::exception& error) {
    check::record(false, __FILE__, __LINE__, error.what());
  }
  return check::finish();
}
