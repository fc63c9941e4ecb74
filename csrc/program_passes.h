// The list of passes from the program of the text to the one that is scheduled.
#pragma once

#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"
#include "plan/options/options.h"

namespace tc {

/// A program and how all its tensors lie in memory.
struct Simplified {
  ir::Program program;
  Layouts layouts;
};

/// Of a specialised program. `layouts` are those of its arguments at least. CompilationError where
/// a number does not fit the bits that it has to have.
Simplified simplify_program(const ir::Program& given, const Layouts& layouts,
                            const MappingOptions& options, bool cuda, const CpuMachine& machine);

/// Adds the layouts that are missing: temporaries are row-major.
Layouts with_temporaries(const ir::Program& program, Layouts layouts);

/// What a kernel is given, by name: parameters in order of the signature, then outputs.
std::vector<std::string> argument_names(const ir::Program& program);

}  // namespace tc
