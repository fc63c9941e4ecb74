#include "codegen/math/narrow_floats.h"

#include "codegen/math/float_bits.h"
#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"
#include "ir/expressions/narrow_floats.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

using namespace strict_math;

// Halide's own conversions of bfloat16, and of half where there are no instructions, warn about
// each kernel, and those to half make infinities of NaN (Halide 21).

Expr from_narrow_bits(const Expr& bits, Type type) {
  return reinterpret(type, Halide::cast<uint16_t>(bits));
}

/// The bits of a half stand 13 places further left in a float, whose exponents are counted from 112
/// less.
constexpr int kShift = 13, kRebias = 112 << 23;

Expr half_to_float(const Expr& e) {
  return named(Halide::cast<int32_t>(reinterpret(Halide::Int(16), e)), [](const Expr& bits) {
    return named((bits & 0x7fff) << kShift, [&](const Expr& magnitude) {
      // A subnormal is m / 2^24: what 2^-14 * (1 + m / 2^10) is beyond 2^-14.
      Expr beyond = from_bits(magnitude + kRebias + (1 << 23));
      Expr subnormal = bits_of(subtract(beyond, number(beyond, 0x1p-14)));
      Expr result = select(magnitude < 0x400 << kShift, subnormal,             //
                           magnitude < 0x7c00 << kShift, magnitude + kRebias,  //
                           magnitude + 2 * kRebias);                           // infinities and NaN
      return from_bits(result | (bits & Halide::Int(32).min()));
    });
  });
}

Expr float_to_half(const Expr& x, Type type) {
  return named(bits_of(x), [&](const Expr& bits) {
    return named(bits & 0x7fffffff, [&](const Expr& magnitude) {
      // Beside 1/2 a float has the digits that a subnormal half has; the sum rounds to them.
      Expr half = number(x, 0.5);
      Expr subnormal = bits_of(add(from_bits(magnitude), half)) - bits_of_number(x, 0.5);
      Expr odd = (magnitude >> kShift) & 1;
      Expr normal = (magnitude - kRebias + 0xfff + odd) >> kShift;
      Expr rounded = select(magnitude < bits_of_number(x, 0x1p-14), subnormal,
                            magnitude < bits_of_number(x, 0x1p16), normal, 0x7c00);
      Expr kept = select(equal(x, x), rounded, 0x7e00);
      return from_narrow_bits(kept | ((bits >> 16) & 0x8000), type);
    });
  });
}

/// The bits of a bfloat16.
Expr float_to_bfloat16(const Expr& x) {
  const Type type = Halide::UInt(32, x.type().lanes());
  Expr bits = reinterpret(type, x), high = bits >> 16;
  Expr rounded = (bits + 0x7fff + (high & 1)) >> 16;
  // A NaN must not round up to an infinity or zero.
  return Halide::cast(type.with_bits(16), select(equal(x, x), rounded, high | 0x40));
}

// What from_float leaves to round_vectors, and Halide's name for the instruction that rounds two
// vectors of 16 floats (a function of its runtime, which has it for 32 lanes).
constexpr char kLeftRounding[] = "tc_round_to_bfloat16", kRoundVectors[] = "vcvtne2ps2bf16";
constexpr int kRoundedLanes = 16;

/// A float that Halide does not make one cast of with casts to it and from it: between half and
/// integers or double there is no instruction, and Halide warns about each kernel with its own way.
/// LLVM leaves the operation out.
Expr apart_from_casts(const Expr& single) { return add(single, number(single, -0.0)); }

}  // namespace

Expr to_float(const Expr& e, NarrowConversions has) {
  const Type type = e.type();
  if (!ir::is_narrow_float(type)) return e;
  const bool is_half = !type.is_bfloat();
  if (is_half && has.halves) return Halide::cast<float>(e);
  if (auto value = as_const_float(e)) return FloatImm::make(Halide::Float(32), *value);
  if (is_half) return half_to_float(e);
  Expr bits = Halide::cast<uint32_t>(reinterpret(Halide::UInt(16), e));
  return reinterpret(Halide::Float(32), bits << 16);
}

Expr from_float(const Expr& e, Type type, NarrowConversions has) {
  if (e.type() == type) return e;
  if (!ir::is_narrow_float(type)) return Halide::cast(type, e);
  Expr single = Halide::cast<float>(e);
  if (!e.type().is_float() || is_double(e)) single = apart_from_casts(single);
  const bool is_half = !type.is_bfloat();
  if (is_half && has.halves) return Halide::cast(type, single);
  if (auto value = as_const_float(single)) return make_const(type, *value);
  if (!is_half && has.vectors_to_bfloat16)
    return reinterpret(type,
                       Call::make(Halide::UInt(16), kLeftRounding, {single}, Call::PureExtern));
  return named(single, [&](const Expr& x) {
    return is_half ? float_to_half(x, type) : reinterpret(type, float_to_bfloat16(x));
  });
}

Expr convert(const Expr& e, Type type, NarrowConversions has) {
  const Type from = e.type();
  Expr single = to_float(e, has);
  if (ir::is_narrow_float(from) && !from.is_bfloat() && !type.is_float())
    single = apart_from_casts(single);
  return from_float(single, type, has);
}

Stmt round_vectors(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) -> Expr {
    if (op->name != kLeftRounding) return self.inside(op);
    const Expr x = self.mutate(op->args[0]);
    if (op->type.lanes() % kRoundedLanes == 0)
      return Call::make(op->type, kRoundVectors, {x}, Call::PureExtern);
    return named(x, float_to_bfloat16);
  });
}

}  // namespace tc::codegen
