// Sums of neighbouring products in 32-bit lanes: AVX-512 VNNI and AVX-VNNI (Intel, Instruction Set
// Extensions Programming Reference). Those that saturate ("vpdpbusds") compute something else.
#include "isa/instructions.h"

namespace tc::isa {
namespace {

using namespace Halide::Internal;
using ir::Expr;

/// The form that Halide has these instructions for.
Expr add_products(const Expr& result, const std::vector<Expr>& operands) {
  const Expr products = Cast::make(Halide::Int(32, operands[0].type().lanes()),
                                   widening_mul(operands[0], operands[1]));
  return result + VectorReduce::make(VectorReduce::Add, products, result.type().lanes());
}

Instruction describe(const char* name, const char* text) {
  Instruction made;
  made.name = name;
  made.text = text;
  made.make = add_products;
  return made;
}

}  // namespace

std::vector<Instruction> dot_products() {
  return {
      describe("vpdpbusd",
               "def vpdpbusd(uint8(L, 4) a, int8(L, 4) b) -> (acc) {"
               "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }"),
      describe("vpdpwssd",
               "def vpdpwssd(int16(L, 2) a, int16(L, 2) b) -> (acc) {"
               "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }"),
  };
}

}  // namespace tc::isa
