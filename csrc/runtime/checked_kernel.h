// A kernel that says which of its reads left their tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/check_gathers.h"
#include "runtime/kernel.h"

namespace tc::runtime {

/// Runs a kernel of ir::check_gathers' program on the CPU and throws a ShapeError after the run if
/// a check failed; the outputs then hold what bad reads of 0 lead to. `name` is the definition's,
/// `arguments` counts the pointers that callers pass.
std::shared_ptr<const Kernel> make_checked(std::shared_ptr<const Kernel> kernel,
                                           const std::string& name, size_t arguments,
                                           std::vector<ir::GatherCheck> checks);

}  // namespace tc::runtime
