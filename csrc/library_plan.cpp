#include "library_plan.h"

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>

#include "ir/segment.h"
#include "runtime/libraries.h"

namespace tc {
namespace {

// Bytes a cycle of a pass over memory that fusion would have spared.
constexpr double kPassBytes = 8;
// The model leaves out what misses the caches; kernels reach this part of what it promises.
constexpr double kModelReached = 0.8;
// Estimates from which on a measurement pays, and what is too large to measure.
constexpr double kNear = 1.3;
constexpr double kMostBytes = 256e6;
// A library has to be that much faster than our own kernel: figures vary from run to run.
constexpr double kClearly = 0.95;

double bytes_of(const ir::LibraryOperand& operand, const ir::LibraryCall& call) {
  double bytes = call.type.bytes();
  for (int64_t size : operand.sizes) bytes *= static_cast<double>(size);
  return bytes;
}

/// Whether another statement writes what the call reads, or touches what it writes: those could
/// have shared a pass over memory.
bool separates(const ir::Program& program, const ir::LibraryCall& call) {
  for (size_t s = 0; s < program.statements.size(); ++s) {
    if (s >= call.first && s <= call.last) continue;
    ir::Program other = ir::segment(program, s, s);
    if (other.tensors.count(call.result.tensor)) return true;
    for (const ir::LibraryOperand* operand : {&call.a, &call.b})
      if (program.statements[s].tensor == operand->tensor) return true;
  }
  return false;
}

}  // namespace

std::vector<LibraryChoice> choose_library_calls(const ir::Program& program,
                                                const std::map<std::string, Layout>& layouts,
                                                const poly::CpuMachine& machine,
                                                const tc_libraries& library,
                                                const OwnKernels& own) {
  std::vector<LibraryChoice> choices;
  for (const ir::LibraryCall& call : ir::match_library_calls(program, layouts)) {
    bool given = machine.library_rate > 0;
    double rate =
        given ? machine.library_rate : runtime::library_rate(library, call.kind, call.type);
    if (rate <= 0) continue;
    LibraryChoice choice;
    choice.library = &library;
    choice.call = call;
    ir::Program part = ir::segment(program, call.first, call.last);
    double moved = bytes_of(call.a, call) + bytes_of(call.b, call) + bytes_of(call.result, call);
    double passes = separates(program, call) ? 2 * bytes_of(call.result, call) : 0;
    double around = machine.library_call_cycles + passes / kPassBytes;
    choice.theirs = call.operations / rate + around;
    // Reading matrices for one vector takes longer than the operations.
    if (!given) choice.theirs = std::max(choice.theirs, moved / kPassBytes);
    choice.own = own.cycles(part) / kModelReached;
    if (!given && choice.theirs < kNear * choice.own && moved < kMostBytes) {
      choice.measured = true;
      choice.theirs = runtime::measure(library, call) + around * runtime::seconds_per_cycle();
      choice.own = own.seconds(part);
    }
    choice.taken = choice.theirs < kClearly * choice.own;
    choices.push_back(choice);
  }
  return choices;
}

std::string to_string(const LibraryChoice& choice) {
  auto figure = [&](double value) {
    std::ostringstream text;
    text << std::setprecision(3) << (choice.measured ? value * 1e3 : value / 1e6);
    return text.str() + (choice.measured ? " ms" : " M cycles expected");
  };
  return concat(choice.library->name, ", ", ir::to_string(choice.call), ": ", figure(choice.theirs),
                ", ", figure(choice.own), " for a kernel of ours");
}

}  // namespace tc
