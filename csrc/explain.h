// What the compiler made of a program, for its author.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile.h"
#include "poly/promote.h"

namespace tc {

/// Fusion groups in order of execution, each with its statements and the decisions of the mapping,
/// then the work and the traffic that no kernel can avoid: floating-point operations (a
/// multiply-add is two), bytes of inputs and outputs with each element moved once, and the ratio of
/// the two. `program` is what was mapped.
std::string explain(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                    const std::vector<poly::Mapped>& groups);

}  // namespace tc
