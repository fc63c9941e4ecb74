// What the compiler made of a program, for its author.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/notes.h"
#include "codegen/cpu/cpu_jit.h"
#include "codegen/cuda/cuda_printer.h"
#include "ir/layout.h"
#include "machine/cpu.h"

namespace tc {

/// What the stages leave behind for Executor.explain().
struct Explanation {
  struct Group {
    Notes notes;
    double cycles = 0;  ///< of one core by the model; 0 when there is none
  };
  std::string target = "the CPU";
  std::optional<CpuMachine> machine;  ///< nothing on a GPU
  Notes program;                      ///< what happened before there was a schedule
  std::vector<Group> groups;          ///< fusion groups in order of execution
  /// Operations of the statements that are mapped; nothing where a library does some of them.
  std::optional<double> floating_point;
  Notes memory;  ///< what a run takes beside its arguments
};

/// What a kernel says of its part of a program, behind what was said before.
void append(const Explanation& part, Explanation& whole);

/// Temporaries that the stages in front of the schedule removed, and those that they made.
Notes describe_changes(const ir::Program& given, const ir::Program& program);

/// Workspaces and scratch of a CPU kernel; what is in `temporaries` and has no workspace is private
/// to the iterations of a loop.
Notes describe_memory(const std::vector<runtime::Workspace>& workspaces,
                      const std::set<std::string>& temporaries, const runtime::Kernel& kernel);

/// Adds what became of every group, a launch each, and the temporaries.
void describe_launches(const codegen::GpuProgram& program, const std::string& arch,
                       const runtime::Kernel& kernel, Explanation& explanation);

/// The text: machine, groups, then work, traffic, the share of the machine's peak that the model
/// expects, memory, and the time of every stage. `given` is the specialised program of the user.
std::string explain(const Explanation& explanation, const ir::Program& given,
                    const Layouts& layouts, const StageClock& clock);

}  // namespace tc
