// Floating-point arithmetic that no later pass may rewrite.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// One operation that later passes leave as it is, such as Call::strict_add.
ir::Expr strict(ir::Type type, Halide::Internal::Call::IntrinsicOp op, const ir::Expr& a,
                const ir::Expr& b);

/// Turns arithmetic, comparisons, min and max on floats into Halide's strict intrinsics. The rules
/// of Halide and LLVM for plain ones (x - x is 0, x * 0 is 0, x == x is true) take every float for
/// a finite number.
ir::Stmt make_floats_strict(const ir::Stmt& stmt);

/// The inverse, for printers of languages whose plain operators keep their meaning.
ir::Stmt make_floats_plain(const ir::Stmt& stmt);

/// Makes divisions by a constant 0 products with an infinity, which is the same: Halide takes them
/// for mistakes. To be called after simplification, which finds more of them.
ir::Stmt replace_divisions_by_zero(const ir::Stmt& stmt);

/// a * b + c and its kin on strict intrinsics with one rounding; c + (d ? a * b : 0) as d ? a * b +
/// c : c, which processors with masks do at once.
ir::Stmt contract_floats(const ir::Stmt& stmt);

}  // namespace tc::codegen
