// Kernels that are timed and thrown away: what several of them have in common is compiled once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nest/nest.h"
#include "runtime/kernel.h"
#include "schedule.h"

namespace tc {

/// The kernel of a nest of loops: one that was made of an equal nest before, or what `compile`
/// makes. Plans may differ and say the same. `made_for` is what decides code beside all that is
/// given.
std::shared_ptr<runtime::Kernel> compile_once(
    const nest::Nest& loops, const ir::Program& program, const Layouts& layouts,
    const std::vector<std::string>& arguments, const std::string& made_for,
    const std::function<std::shared_ptr<runtime::Kernel>()>& compile);

/// The kernel of some groups, by their numbers, for a program whose other tensors than its own are
/// arguments.
using CompileGroups = std::function<std::shared_ptr<const runtime::Kernel>(
    const std::vector<size_t>& groups, const ir::Program& program,
    const std::vector<std::string>& arguments)>;

/// Every group of statements as a kernel of its own, one after the other. Those that a program was
/// compiled with before, by the same Plans, are taken again: a search changes one at a time, and
/// code takes longer than all else. `made_for` is what decides code beside program and Plans. Null
/// where one function for all is other code: of a single group, and where so much data is written
/// that some may go past the caches.
std::shared_ptr<runtime::Kernel> compile_group_by_group(const Scheduled& scheduled,
                                                        const std::vector<std::string>& arguments,
                                                        const CpuMachine& machine,
                                                        const std::string& made_for,
                                                        const CompileGroups& compile);

}  // namespace tc
