// Helpers for indices, loads and stores that several passes use.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::ir {

/// By how much an index grows when `loop` grows by one; nothing when that varies (it divides, or
/// reads data that depends on the loop).
std::optional<int64_t> step_along(const Expr& index, const std::string& loop);

/// Where buffer[index] lies, an element of `type`.
Expr make_address(Type type, const std::string& buffer, const Expr& index);

/// A prefetch of the line that buffer[index] lies in, an element of `type`, to this cache (1 to 3)
/// and the larger ones. There is no fault where the address is outside of the buffer.
Stmt make_prefetch(Type type, const std::string& buffer, const Expr& index, int cache = 1);

/// The condition as a branch hint for LLVM: it holds nearly always, and the code for it goes
/// straight on. Halide's simplifier no longer sees what it says.
Expr likely_branch(const Expr& condition);

/// Buffers that a statement writes.
std::set<std::string> stored_buffers(const Stmt& stmt);

/// Buffers that a statement writes or reads.
std::set<std::string> used_buffers(const Stmt& stmt);

/// Whether an expression loads anything.
bool has_load(const Expr& e);

}  // namespace tc::ir
