// Which statements a library computes instead of a kernel of ours (design decision 7).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/notes.h"
#include "ir/layout.h"
#include "isa/library_calls.h"
#include "machine/cpu.h"
#include "runtime/kernel.h"

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
  /// All that decides them beside the program and its layouts: options, the machine.
  std::string made_for;
  /// Cycles of one core, by the model of the mapping; 0 where it has none.
  std::function<double(const ir::Program&)> cycles;
  std::function<std::shared_ptr<const runtime::Kernel>(const ir::Program&)> kernel;
};

/// Every call of the library that could stand for statements of the program, in order.
/// Estimates sort most of them out: the library's rate on a sample, the call itself and the passes
/// over memory that it keeps from being fused, against the model's cycles for these statements. So
/// small calls are never made. Where the library comes near, both are run on memory of zeros, and
/// the library has to be clearly faster; what is too large for that is called where it is expected
/// to be faster by more than estimates err. `machine.library_rate` is believed without a
/// measurement. What was measured stays so while the process runs: the same program gets the same
/// call, and so the same bits, whenever it is compiled.
std::vector<LibraryChoice> choose_library_calls(const ir::Program& program, const Layouts& layouts,
                                                const CpuMachine& machine,
                                                const tc_libraries& library, const OwnKernels& own);

/// The calls for these statements, and no others. CompilationError where the library has none.
std::vector<LibraryChoice> take_library_calls(const ir::Program& program, const Layouts& layouts,
                                              const tc_libraries& library,
                                              const std::vector<std::string>& statements);

/// Statements from one to before another.
struct StatementRange {
  size_t begin, end;
};

/// Those in front of, between and behind the calls that are taken, cut into segments of at most
/// `most`.
std::vector<StatementRange> ranges_around_calls(const ir::Program& program,
                                                const std::vector<LibraryChoice>& choices,
                                                size_t most);

/// The calls that are taken, and kernels for the statements in front of, between and behind them,
/// one for every segment of at most `most`. `own` compiles those; `made` is told of every call in
/// its turn. Without calls `library` may be null.
std::shared_ptr<runtime::Kernel> compile_around_calls(
    const ir::Program& program, const Layouts& layouts, const std::vector<LibraryChoice>& choices,
    const tc_libraries* library, size_t most,
    const std::function<std::shared_ptr<const runtime::Kernel>(const ir::Program&)>& own,
    const std::function<void(const LibraryChoice&)>& made);

/// Its statements and the choice.
Notes describe(const ir::Program& program, const LibraryChoice& choice);
/// "ATen, product of matrices 128x1024 and 1024x1024", and on a second line both figures.
std::string to_string(const LibraryChoice& choice);

}  // namespace tc
