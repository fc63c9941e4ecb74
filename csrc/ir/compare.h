// Whether a pass changed something: values compared by their structure.
#pragma once

#include <string>
#include <utility>

#include "base/passes.h"
#include "ir/program.h"

namespace tc::ir {

/// Everything but positions in the text and what is said for readers.
bool same(const Program& a, const Program& b);

/// Also whether loads are of buffers that Halide may take for inputs
/// (codegen/workarounds/changing_buffers).
bool same(const Stmt& a, const Stmt& b);

/// Runs a pass that is entered from inside a stage; `before` is what it is given.
template <class Work>
Stmt run_pass(const Pass& pass, const Stmt& before, Work work) {
  return tc::run_pass(pass, std::move(work),
                      [&](const Stmt& after) { return !same(before, after); });
}

/// As Halide prints it.
std::string to_string(const Stmt& stmt);

}  // namespace tc::ir
