// Conversions between half or bfloat16 and the other types.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Which conversions the processor has instructions for; integer arithmetic on the bits makes the
/// others.
struct NarrowConversions {
  bool halves = false;
  bool vectors_to_bfloat16 = false;  ///< of 16 lanes; below the smallest normal number they make 0
};

/// What is a narrow float, as a float. Every operation on narrow floats is one on float, rounded.
ir::Expr to_float(const ir::Expr& e, NarrowConversions has);

/// A number that is no narrow float, rounded to a type, which may be one: to the nearest, ties to
/// even, and from double and integers by way of float. A NaN stays one. Where there are
/// instructions for vectors, those to bfloat16 are left to round_vectors, which knows the lanes.
ir::Expr from_float(const ir::Expr& e, ir::Type type, NarrowConversions has);

/// A cast from or to a narrow float: by way of float, as in PyTorch.
ir::Expr convert(const ir::Expr& e, ir::Type type, NarrowConversions has);

/// Floats that from_float left to be rounded to bfloat16: whole vectors by the instruction, others
/// by integer arithmetic. To be called behind vectorisation.
ir::Stmt round_vectors(const ir::Stmt& stmt);

}  // namespace tc::codegen
