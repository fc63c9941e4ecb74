// A zero that LLVM cannot see, to end what it may conclude from one value about another.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// An Int(32) variable that is 0 in every run.
ir::Expr hidden_zero();

/// The same value, about which LLVM knows nothing.
ir::Expr hidden(const ir::Expr& value);

/// The identity of a reduction, for a select beside a term: hidden where it is the least or largest
/// number of a type that Halide takes to never overflow. The simplifier moves what is added to the
/// term over to it: select(c, i + 256, INT_MIN).
ir::Expr hide_extreme(const ir::Expr& identity);

/// The load at its address with a zero for each iteration, so that LLVM does not see that several
/// of them load the same element.
ir::Expr separate(const Halide::Internal::Load& load, const ir::Expr& iteration);

/// The value without such zeros.
ir::Expr reveal(const ir::Expr& value);

/// Defines the variable around a function's body where it is used. `__user_context` must be in
/// scope there.
ir::Stmt define_hidden_zero(const ir::Stmt& stmt);

}  // namespace tc::codegen
