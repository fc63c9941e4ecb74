// Checks what every statement between the middle and the code generators must satisfy.
#pragma once

#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::ir {

/// Throws an InternalError unless every variable is bound by a loop or let around it, no loop hides
/// another of its name, every buffer is one of `buffers` or allocated around its use, index types
/// are Int(32) or Int(64), and no read of the language is left. Runs after codegen/to_stmt.
void verify(const Stmt& stmt, const std::set<std::string>& buffers);

}  // namespace tc::ir
