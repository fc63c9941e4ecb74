// Kernels of this process, shared by everyone who asks for the same thing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/kernel.h"

namespace tc::runtime {

/// The kernel kept under `key`, made by `make` when there is none. Threads that ask for one key at
/// once wait for one compilation; a failure is thrown to all of them and is not kept.
std::shared_ptr<const Kernel> find_or_compile(
    const std::string& key, const std::function<std::shared_ptr<const Kernel>()>& make);

}  // namespace tc::runtime
