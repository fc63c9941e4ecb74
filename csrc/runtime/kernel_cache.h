// Kernels of this process, shared by everyone who asks for the same thing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/kernel.h"

namespace tc::runtime {

/// The kernel of this key that somebody holds, or is making, else what `make` makes on a thread of
/// its own (see base/threads/task); `what` names that. Threads that ask for one key at once wait
/// for one compilation; a failure is thrown to all of them and is not kept. `make` must own what it
/// refers to.
std::shared_ptr<const Kernel> find_or_compile(const std::string& key, std::string what,
                                              std::function<std::shared_ptr<const Kernel>()> make);

}  // namespace tc::runtime
