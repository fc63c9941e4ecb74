// What an expression reads.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// How many reads of tensors and scalars there are, those inside subscripts included.
int count_reads(const Expr& e);

/// The expression with `to` wherever it reads `from`.
Expr replace_read(const Expr& e, const Expr& from, const Expr& to);

}  // namespace tc::ir
