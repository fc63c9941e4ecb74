// What the compiler made of a program, for its author.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile.h"

namespace tc {

/// The notes of fusion groups in order of execution: statements and decisions of the mapping; then
/// the work and the traffic that no kernel can avoid: floating-point operations (a multiply-add is
/// two), bytes of inputs and outputs with each element moved once, and the ratio of the two.
/// `program` is what was mapped.
std::string explain(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                    const std::vector<std::vector<std::string>>& groups);

}  // namespace tc
