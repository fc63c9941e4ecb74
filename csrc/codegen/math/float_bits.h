// The bits of floats and doubles as integers (IEEE 754, section 3.4).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ir/halide.h"

namespace tc::codegen {

/// What comes after the sign: exponents counted from `bias`, and a fraction.
struct FloatFormat {
  int fraction_bits;
  int bias;
};
inline bool is_double(const ir::Expr& x) { return x.type().bits() == 64; }
inline FloatFormat format_of(const ir::Expr& x) {
  return is_double(x) ? FloatFormat{52, 1023} : FloatFormat{23, 127};
}

/// Adding it to numbers like x leaves the nearest whole number, plus `more`, in the sum's last
/// bits.
inline ir::Expr rounding_shift(const ir::Expr& x, int more = 0) {
  return Halide::Internal::make_const(x.type(), std::ldexp(1.5, format_of(x).fraction_bits) + more);
}

/// Signed, as wide as x.
inline ir::Expr bits_of(const ir::Expr& x) {
  return reinterpret(Halide::Int(x.type().bits(), x.type().lanes()), x);
}
inline ir::Expr from_bits(const ir::Expr& bits) {
  return reinterpret(Halide::Float(bits.type().bits(), bits.type().lanes()), bits);
}
/// A constant of the type of bits_of(like).
inline ir::Expr integer(const ir::Expr& like, int64_t value) {
  return Halide::Internal::make_const(Halide::Int(like.type().bits(), like.type().lanes()), value);
}
/// The bits of a number of the type of `like`.
inline ir::Expr bits_of_number(const ir::Expr& like, double value) {
  if (is_double(like)) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return integer(like, bits);
  }
  const auto single = static_cast<float>(value);
  int32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return integer(like, bits);
}

/// A double without the 27 last bits of its fraction: products of two of them are exact.
inline ir::Expr high_part(const ir::Expr& x) {
  return from_bits(bits_of(x) & integer(x, -(int64_t{1} << 27)));
}

/// The absolute value, about which neither Halide nor LLVM concludes anything.
inline ir::Expr clear_sign(const ir::Expr& x) {
  const ir::Type type = x.type().with_code(halide_type_int);
  const auto all_but_sign = static_cast<int64_t>(~uint64_t{0} >> (65 - type.bits()));
  return reinterpret(x.type(),
                     reinterpret(type, x) & Halide::Internal::make_const(type, all_but_sign));
}

/// C's copysign(magnitude, x).
inline ir::Expr with_sign_of(const ir::Expr& x, const ir::Expr& magnitude) {
  const ir::Type type = Halide::UInt(x.type().bits(), x.type().lanes());
  ir::Expr sign = Halide::Internal::make_const(type, uint64_t{1} << (x.type().bits() - 1));
  return reinterpret(x.type(),
                     (reinterpret(type, magnitude) & ~sign) | (reinterpret(type, x) & sign));
}

}  // namespace tc::codegen
