// From loops marked as blocks and threads to launches.
#pragma once

#include <string>

#include "codegen/cuda/cuda_printer.h"
#include "nest/nest.h"
#include "plan/options/options.h"

namespace tc::codegen {

/// Makes one launch of a cluster's nest (see plan/forms/gpu): nested block loops become one grid
/// dimension, thread loops become x, y, z from the inside out, each with a guard where its extent
/// varies and a serial loop where it is larger than options.threads or options.blocks allow. A
/// nest without such loops runs on one thread. Loads of run-time scalars become arguments.
GpuLaunch make_launch(const std::string& name, const nest::Nest& nest, const ir::Program& program,
                      const MappingOptions& options);

/// How to run a program, as JSON: launches with symbol, grid, block, the bytes of shared memory
/// that must be given at launch ("shared_bytes") and the names of their arguments (".report" and
/// ".kernel" are those of GpuLaunch::checks_indices), then temporaries with their element counts
/// and bytes. For tests and for users who take the text elsewhere.
std::string describe_launches(const GpuProgram& program);

}  // namespace tc::codegen
