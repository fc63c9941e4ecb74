// Which statements a library computes instead of a kernel of ours (design decision 7).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compile.h"
#include "ir/library_calls.h"
#include "poly/map_cpu.h"

namespace tc {

/// A call that could be made, and what it was weighed against.
struct LibraryChoice {
  const tc_libraries* library = nullptr;
  ir::LibraryCall call;
  bool measured = false;
  double theirs = 0, own = 0;  ///< seconds if measured, otherwise expected cycles of one core
  bool taken = false;
};

/// What a kernel of ours needs for a program.
struct OwnKernels {
  /// Cycles of one core, by the model of the mapping.
  std::function<double(const ir::Program&)> cycles;
  /// Seconds of a run on the host's threads; compiles.
  std::function<double(const ir::Program&)> seconds;
};

/// Every call of the library that could stand for statements of the program, in order.
/// Estimates sort most of them out: the library's rate on a sample, the call itself and the passes
/// over memory that it keeps from being fused, against the model's cycles for these statements. So
/// small calls are never made. Where the library comes near, both are run on memory of zeros, and
/// the library has to be clearly faster. `machine.library_rate` is believed without a measurement.
std::vector<LibraryChoice> choose_library_calls(const ir::Program& program,
                                                const std::map<std::string, Layout>& layouts,
                                                const poly::CpuMachine& machine,
                                                const tc_libraries& library, const OwnKernels& own);

/// "ATen, product of matrices 128x1024 and 1024x1024: 8.1 M cycles, 4.3 M for a kernel of ours".
std::string to_string(const LibraryChoice& choice);

}  // namespace tc
