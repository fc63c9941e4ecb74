// A segment of a program, from its statements to a kernel: one function on the CPU, a launch a
// cluster on a GPU. What is around segments, library calls and checks of indices, is compile.cpp's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "code_on_disk.h"
#include "codegen/cpu/cpu_jit.h"
#include "compile.h"
#include "explain.h"
#include "schedule.h"

namespace tc {

/// Statements that are scheduled and compiled together. What takes longer than in proportion to the
/// number of statements stays short (dependences, LLVM's passes over one function), which no model
/// of the processor knows, and nothing is fused across the borders. The longest derivative in ops/
/// has 33.
constexpr size_t kMostStatements = 64;

/// What programs are compiled for, and what is wanted beside the code.
struct Job {
  MappingOptions options;
  Target target;
  CpuMachine machine;
  codegen::Texts texts = codegen::Texts::Short;
  size_t segment = 0;  ///< which one of a program's, counted from 1; 0: all of it
  CompileContext context{};
  bool keeps_code = false;             ///< whether it is wanted as data
  std::shared_ptr<FoundCode> found{};  ///< taken in the place of what would be compiled
};

/// The job for a segment, with the options that are of it.
Job for_segment(const Job& job, size_t segment);

/// A kernel and how it came about.
struct Compiled {
  std::shared_ptr<runtime::Kernel> kernel;
  Explanation explanation;
  std::vector<plan::ClusterPlan> plans;  ///< of all clusters, in order of execution
  std::vector<std::string> absent;       ///< names of statements, see plan::ProgramPlan
  std::vector<codegen::CpuCode> code;    ///< of its functions, where a job keeps it
};

/// Rewrites a program, decides all of its clusters, and schedules them. `layouts` names every
/// tensor.
std::unique_ptr<Scheduled> simplify_and_schedule(const ir::Program& given, const Layouts& layouts,
                                                 const Job& job, StageClock& clock);

/// The kernel of a segment, or what was found on disk for it. For a GPU of all of a program, which
/// is cut into segments here.
Compiled compile_segment(const ir::Program& program, const Layouts& layouts, const Job& job,
                         StageClock& clock);

}  // namespace tc
