// From statements to machine code, through Halide's passes and LLVM.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "codegen/cpu/cpu_code.h"
#include "machine/cpu.h"
#include "nest/nest.h"
#include "runtime/kernel.h"
#include "runtime/workspaces.h"

namespace tc::codegen {

/// What code is generated for: the instruction sets of this machine.
std::string cpu_target();

/// Width of this machine's vector registers.
int cpu_vector_bits();

/// What is known of buffers, by their names.
struct BufferFacts {
  std::set<std::string> large;  ///< do not fit in the caches of a core
  std::set<std::string> far_gathers;  ///< those of them in which data says places that are far apart
  std::set<std::string> empty;        ///< have no element
  std::set<std::string> temporaries;
  /// Results that leave the caches before somebody reads them, with their sizes in bytes.
  std::map<std::string, int64_t> streamed;
  int64_t least_streamed_row = 0;  ///< bytes
  std::set<std::string> streams;   ///< those of them that do, once their loops are chosen
  CpuMachine machine;
};

/// Whether a kernel comes with the texts that only readers need: they take longer to write, and
/// more memory, than the code.
enum class Texts { Short, All };

/// Compiles a nest (see nest/build) for this machine. `arguments` names
/// the buffers in the order of Kernel::launch. Of the workspaces, those stay that are still used
/// where blocks of results have their temporaries in registers. Stages are logged to `clock`. All
/// texts are "stmt" and "assembly". `kept` gets the code as data, where somebody wants it.
std::shared_ptr<runtime::Kernel> compile_cpu(const std::string& name, const nest::Nest& nest,
                                             const std::vector<std::string>& arguments,
                                             std::vector<runtime::Workspace>& workspaces,
                                             const BufferFacts& facts, Texts texts,
                                             StageClock& clock, CpuCode* kept = nullptr);

}  // namespace tc::codegen
