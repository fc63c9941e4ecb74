// Sums of neighbouring products in 32-bit lanes: AVX-512 VNNI and AVX-VNNI (Intel, Instruction Set
// Extensions Programming Reference). Those that saturate ("vpdpbusds") compute something else.
#include "isa/instructions.h"
#include "machine/instruction_sets.h"

namespace tc::isa {
namespace {

using namespace Halide::Internal;
using ir::Expr;

/// Of uint8 or int16 and int8 or int16: the form that Halide has these instructions for.
Expr add_products(const Expr& result, const std::vector<Expr>& operands) {
  const Expr products = Cast::make(Halide::Int(32, operands[0].type().lanes()),
                                   widening_mul(operands[0], operands[1]));
  return result + VectorReduce::make(VectorReduce::Add, products, result.type().lanes());
}

/// The other type of bytes, 128 less or more.
Expr shift_range(const Expr& e) {
  const ir::Type bytes = Halide::UInt(8, e.type().lanes());
  const Expr moved = reinterpret(bytes, e) ^ make_const(bytes, 128);
  return e.type().is_int() ? moved : reinterpret(bytes.with_code(halide_type_int), moved);
}

/// Of bytes that are all signed, or all unsigned, with the range of the first operand moved: (a +
/// 128) * b - 128 * b, where `sum` and `excess` are these two products. The second is the same for
/// all results that share `b`. From -1 on, its complement is its negative; sums wrap around.
Expr add_moved(const Expr& result, const std::vector<Expr>& sum, const std::vector<Expr>& excess) {
  const ir::Type words = result.type().with_code(halide_type_uint);
  const Expr all = add_products(result, sum),
             more = add_products(make_const(result.type(), -1), excess);
  return reinterpret(result.type(), reinterpret(words, all) + reinterpret(words, ~more));
}

bool has_instructions() { return machine::has_dot_products(machine::usable_instruction_sets()); }

/// Of bytes that are all signed, or all unsigned, where the processor lacks the instructions: both
/// factors widened. With AVX-512 but no VNNI, LLVM 21 does not come to an end on what add_moved
/// makes (tests/plan/test_instructions.py, test_processors_that_lack_it).
Expr add_wide(const Expr& result, const std::vector<Expr>& operands) {
  const ir::Type wide = Halide::Int(16, operands[0].type().lanes());
  return add_products(result, {Cast::make(wide, operands[0]), Cast::make(wide, operands[1])});
}

Expr add_signed_products(const Expr& result, const std::vector<Expr>& operands) {
  if (!has_instructions()) return add_wide(result, operands);
  const Expr &a = operands[0], &b = operands[1];
  return add_moved(result, {shift_range(a), b},
                   {make_const(Halide::UInt(8, b.type().lanes()), 128), b});
}

Expr add_unsigned_products(const Expr& result, const std::vector<Expr>& operands) {
  if (!has_instructions()) return add_wide(result, operands);
  const Expr &a = operands[0], &b = operands[1];
  return add_moved(result, {b, shift_range(a)},
                   {b, make_const(Halide::Int(8, b.type().lanes()), -128)});
}

}  // namespace

std::vector<Instruction> dot_products() {
  return {
      {"vpdpbusd",
       "def vpdpbusd(uint8(L, 4) a, int8(L, 4) b) -> (acc) {"
       "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }",
       add_products, 1},
      // AVX-VNNI-INT8, which Halide 21 does not know.
      {"vpdpbssd",
       "def vpdpbssd(int8(L, 4) a, int8(L, 4) b) -> (acc) {"
       "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }",
       add_signed_products, 2},
      {"vpdpbuud",
       "def vpdpbuud(uint8(L, 4) a, uint8(L, 4) b) -> (acc) {"
       "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }",
       add_unsigned_products, 2},
      {"vpdpwssd",
       "def vpdpwssd(int16(L, 2) a, int16(L, 2) b) -> (acc) {"
       "  acc(i) += int32(a(i, j)) * int32(b(i, j)) }",
       add_products, 1},
  };
}

}  // namespace tc::isa
