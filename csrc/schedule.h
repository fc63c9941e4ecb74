// Programs on their way to loops: what tuning sees of the compiler.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile.h"
#include "plan/plan_program.h"
#include "poly/scop.h"

namespace tc {

/// Statements that are scheduled and compiled together, with their Plans.
struct Scheduled {
  Scheduled(ir::Program mapped, Layouts in)
      : program(std::move(mapped)), layouts(std::move(in)), scop(poly::make_scop(program)) {}
  ir::Program program;  ///< as it is mapped
  Layouts layouts;
  poly::Scop scop;
  plan::ProgramPlan plan;
  size_t segment = 0;  ///< see plan/options/segments.h
};

/// The statements of a program that a library of the host has a function for.
std::vector<std::string> library_statements(const ir::Program& program, const Layouts& layouts);

/// What `compile` makes of a program up to its Plans: the parts before, between and behind the
/// library calls that the options name. Without names there are none.
std::vector<std::shared_ptr<const Scheduled>> schedule_parts(const ir::Program& program,
                                                             const Layouts& layouts,
                                                             const MappingOptions& options,
                                                             const Target& target,
                                                             const CpuMachine& machine);

}  // namespace tc
