// Plans for definitions that differ in names only.
#pragma once

#include <string>

#include "plan/options/options.h"

namespace tc::store {

/// The options of a definition, said of another one of the same key: indices and tensors have the
/// names that its text gives them, and so do those that passes derived from them ("n_rest").
MappingOptions rename(const MappingOptions& options, const std::string& from,
                      const std::string& to);

}  // namespace tc::store
