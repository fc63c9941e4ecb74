// A checked tree to the program of the middle ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Lowers every statement, infers ranges and gives tensors their sizes. `scalars` has a value for
/// each specialised scalar. LanguageError where a range cannot be inferred.
ir::Program to_program(const Function& function, const ir::Program& signature,
                       const std::map<std::string, int64_t>& scalars);

}  // namespace tc::lang
