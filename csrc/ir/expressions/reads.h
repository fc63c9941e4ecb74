// What an expression reads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// Whether a value depends on what tensors or scalars hold, not on indices and sizes alone.
bool has_data(const Expr& e);

/// How many reads of tensors and scalars there are, those inside subscripts included.
int count_reads(const Expr& e);

/// The names of the variables in an expression.
std::set<std::string> variables_of(const Expr& e);

/// The names of tensors and scalars that an expression reads.
std::set<std::string> names_read(const Expr& e);

/// The reads of tensors and scalars in a statement: in its value, subscripts and guard.
std::vector<const Halide::Internal::Call*> reads_of(const Statement& statement);
/// Whether a statement, or an expression, reads a tensor or scalar.
bool reads(const Statement& statement, const std::string& name);
bool reads(const Expr& e, const std::string& name);

/// Whether two scatters add up in the same tensor, which neither reads: their terms may come in any
/// order.
bool add_up_together(const Statement& a, const Statement& b);

/// The read that a statement copies, element by element and without a reduction, if it does no more
/// than that, and how far the elements of every dimension lie in front of where they are written.
struct CopiedRead {
  std::string tensor;
  std::vector<int64_t> offsets;
};
std::optional<CopiedRead> find_copied(const Statement& statement);

}  // namespace tc::ir
