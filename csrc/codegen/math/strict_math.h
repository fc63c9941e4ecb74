// Arithmetic on strict floats, for functions that passes put together of it.
#pragma once

#include <initializer_list>

#include "codegen/math/strict_floats.h"

namespace tc::codegen::strict_math {

inline ir::Expr add(const ir::Expr& a, const ir::Expr& b) {
  return strict(a.type(), Halide::Internal::Call::strict_add, a, b);
}
inline ir::Expr subtract(const ir::Expr& a, const ir::Expr& b) {
  return strict(a.type(), Halide::Internal::Call::strict_sub, a, b);
}
inline ir::Expr multiply(const ir::Expr& a, const ir::Expr& b) {
  return strict(a.type(), Halide::Internal::Call::strict_mul, a, b);
}
inline ir::Expr divide(const ir::Expr& a, const ir::Expr& b) {
  return strict(a.type(), Halide::Internal::Call::strict_div, a, b);
}
/// False for NaN, as the next one is.
inline ir::Expr less(const ir::Expr& a, const ir::Expr& b) {
  return strict(Halide::Bool(a.type().lanes()), Halide::Internal::Call::strict_lt, a, b);
}
inline ir::Expr equal(const ir::Expr& a, const ir::Expr& b) {
  return strict(Halide::Bool(a.type().lanes()), Halide::Internal::Call::strict_eq, a, b);
}
/// A constant of the type of `like`.
inline ir::Expr number(const ir::Expr& like, double value) {
  return Halide::Internal::make_const(like.type(), value);
}
/// From the highest power down.
inline ir::Expr polynomial(const ir::Expr& x, std::initializer_list<double> coefficients) {
  ir::Expr sum;
  for (double c : coefficients)
    sum = sum.defined() ? add(multiply(sum, x), number(x, c)) : number(x, c);
  return sum;
}

}  // namespace tc::codegen::strict_math
