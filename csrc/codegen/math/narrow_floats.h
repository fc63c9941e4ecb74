// Conversions between half or bfloat16 and the other types.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Who converts between half and float: the processor, or integer arithmetic on the bits.
enum class HalfConversions { Instructions, Bits };

inline bool is_narrow(ir::Type type) { return type.is_float() && type.bits() == 16; }

/// What is a narrow float, as a float. Every operation on narrow floats is one on float, rounded.
ir::Expr to_float(const ir::Expr& e, HalfConversions halves);

/// A number that is no narrow float, rounded to a type, which may be one: to the nearest, ties to
/// even, and from double and integers by way of float. A NaN stays one.
ir::Expr from_float(const ir::Expr& e, ir::Type type, HalfConversions halves);

/// A cast from or to a narrow float: by way of float, as in PyTorch.
ir::Expr convert(const ir::Expr& e, ir::Type type, HalfConversions halves);

}  // namespace tc::codegen
