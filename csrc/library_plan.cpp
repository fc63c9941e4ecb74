#include "library_plan.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "ir/accesses.h"
#include "ir/segment.h"
#include "machine/limits.h"
#include "machine/measure.h"
#include "machine/measurements.h"
#include "plan/model/line_cycles.h"
#include "plan/notes.h"
#include "program_passes.h"
#include "runtime/libraries.h"
#include "runtime/overlap.h"
#include "runtime/sequence.h"

namespace tc {
namespace {

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
    for (const ir::MemoryAccess& access : ir::accesses(program, program.statements[s]))
      if (access.tensor == call.result.tensor ||
          (access.write && (access.tensor == call.a.tensor || access.tensor == call.b.tensor)))
        return true;
  }
  return false;
}

/// What the tensors of a program take with everything that lies between their elements.
double spanned_bytes(const ir::Program& program, const Layouts& layouts) {
  double bytes = 0;
  for (const auto& [name, tensor] : program.tensors) {
    const auto [low, high] = runtime::reach(layouts.at(name));
    bytes += static_cast<double>(high - low + 1) * tensor.type.bytes();
  }
  return bytes;
}

/// Seconds of a run of the call and of a kernel in its place, on memory of zeros and the host's
/// threads, the best of a few.
std::vector<double> measure(const LibraryChoice& choice, const runtime::Kernel& kernel,
                            const ir::Program& program, const Layouts& layouts) {
  std::map<std::string, std::vector<Line>> memory;
  std::vector<void*> pointers;
  std::map<std::string, void*> first;  // element of a tensor
  auto add = [&](const std::string& name) {
    const auto [low, high] = runtime::reach(layouts.at(name));
    int64_t bytes = dense_bytes(program.tensor(name), Layout());  // of one element
    std::vector<Line>& lines = memory[name] =
        make_lines(static_cast<size_t>((high - low + 1) * bytes));
    first[name] = lines.data()->bytes - low * bytes;
    pointers.push_back(first[name]);
  };
  uint64_t scalar = 0;
  for (const ir::Parameter& parameter : program.parameters) {
    if (parameter.scalar)
      pointers.push_back(&scalar);
    else
      add(parameter.name);
  }
  for (const std::string& output : program.outputs) add(output);
  const ir::LibraryCall& call = choice.call;
  const tc_libraries& library = *choice.library;
  void *a = first.at(call.a.tensor), *b = first.at(call.b.tensor),
       *result = first.at(call.result.tensor);
  return machine::best_seconds({[&] { runtime::run(library, call, a, b, result); },
                                [&] { kernel.launch(*library.host, pointers.data()); }});
}

/// All that a measurement depends on.
std::string describe_measured(const LibraryChoice& choice, const ir::Program& program,
                              const Layouts& layouts, const std::string& made_for) {
  const tc_libraries& library = *choice.library;
  std::string text = concat(choice.library, " ", library.host->thread_count(library.host->context),
                            "\n", made_for, "\n", ir::to_string(program));
  for (const auto& [name, tensor] : program.tensors) {
    text += "\n" + name;
    const Layout& layout = layouts.at(name);
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      text += concat(" ", layout.sizes[d], "@", layout.strides[d]);
  }
  return text;
}

}  // namespace

std::vector<LibraryChoice> choose_library_calls(const ir::Program& program, const Layouts& layouts,
                                                const CpuMachine& machine,
                                                const tc_libraries& library,
                                                const OwnKernels& own) {
  std::vector<LibraryChoice> choices;
  for (const ir::LibraryCall& call : ir::match_library_calls(program, layouts)) {
    bool given = machine.library_rate > 0;
    double rate =
        given ? machine.library_rate : runtime::library_rate(library, call.kind, call.type);
    if (rate <= 0) continue;
    LibraryChoice choice{&library, call};
    ir::Program part = ir::segment(program, call.first, call.last);
    double moved = bytes_of(call.a, call) + bytes_of(call.result, call);
    if (call.b.tensor != call.a.tensor) moved += bytes_of(call.b, call);
    double passes = separates(program, call) ? 2 * bytes_of(call.result, call) : 0;
    double around = machine.library_call_cycles + passes / machine::kPassBytes;
    // The lines that our own kernel waits for come no faster to a library's.
    choice.theirs = call.operations / rate + around + plan::cycles_of_lines(moved, machine);
    double cycles = own.cycles(part);
    // A multiply-add a cycle, where nothing better is known.
    choice.own = cycles > 0 ? cycles : call.operations / 2;
    if (!given && choice.theirs < machine::kNearEstimates * choice.own &&
        spanned_bytes(part, layouts) < machine::kMeasuredBytes) {
      choice.measured = true;
      const std::string what = describe_measured(choice, part, layouts, own.made_for);
      std::optional<std::vector<double>> seconds = machine::find_measured(what);
      if (!seconds) {
        const std::shared_ptr<const runtime::Kernel> kernel = own.kernel(part);
        seconds =
            machine::measure_once(what, [&] { return measure(choice, *kernel, part, layouts); });
      }
      choice.theirs = seconds->at(0);
      choice.own = seconds->at(1);
      choice.theirs += around * machine::seconds_per_cycle();
    }
    const double least =
        choice.measured || given ? machine::kLibraryGain : 1 / machine::kNearEstimates;
    choice.taken = choice.theirs < least * choice.own;
    choices.push_back(choice);
  }
  return choices;
}

/// Whether a statement has nothing to do at these sizes, for which nobody is called.
static bool is_absent(const ir::Program& program, const std::string& name) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [&](const ir::Statement& statement) {
                       return statement.name == name &&
                              std::any_of(statement.domain.begin(), statement.domain.end(),
                                          [](const auto& it) { return extent_of(it) == 0; });
                     });
}

std::vector<LibraryChoice> take_library_calls(const ir::Program& program, const Layouts& layouts,
                                              const tc_libraries& library,
                                              const std::vector<std::string>& statements) {
  std::vector<LibraryChoice> choices;
  std::vector<std::string> known;
  for (const ir::LibraryCall& call : ir::match_library_calls(program, layouts)) {
    known.push_back(program.statements[call.first].name);
    if (std::count(statements.begin(), statements.end(), known.back()) == 0) continue;
    choices.push_back({&library, call, false, 0, 0, true});
  }
  for (const std::string& statement : statements)
    if (std::count(known.begin(), known.end(), statement) == 0 && !is_absent(program, statement))
      throw CompilationError("the options leave ", statement,
                             " to a library, which has no function for it; it has some for ",
                             known.empty() ? "no statement here" : join(known));
  return choices;
}

std::vector<StatementRange> ranges_around_calls(const ir::Program& program,
                                                const std::vector<LibraryChoice>& choices,
                                                size_t most) {
  std::vector<StatementRange> ranges;
  size_t next = 0;
  auto add_until = [&](size_t end) {
    if (next == end) return;
    for (size_t cut : ir::find_cuts(program, next, end, most)) {
      ranges.push_back({next, cut});
      next = cut;
    }
    ranges.push_back({next, end});
  };
  for (const LibraryChoice& choice : choices) {
    if (!choice.taken) continue;
    add_until(choice.call.first);
    next = choice.call.last + 1;
  }
  add_until(program.statements.size());
  return ranges;
}

std::shared_ptr<runtime::Kernel> compile_around_calls(
    const ir::Program& program, const Layouts& layouts, const std::vector<LibraryChoice>& choices,
    const tc_libraries* library, size_t most,
    const std::function<std::shared_ptr<const runtime::Kernel>(const ir::Program&)>& own,
    const std::function<void(const LibraryChoice&)>& made) {
  std::map<std::string, size_t> places;
  for (const std::string& name : argument_names(program)) places.emplace(name, places.size());
  const size_t arguments = places.size();
  std::vector<runtime::Workspace> workspaces;
  auto place = [&](const std::string& name) {
    auto [found, added] = places.emplace(name, places.size());
    if (added) workspaces.push_back({name, dense_bytes(program.tensor(name), layouts.at(name))});
    return found->second;
  };

  std::vector<runtime::Step> steps;
  const std::vector<StatementRange> ranges = ranges_around_calls(program, choices, most);
  auto range = ranges.begin();
  auto compile_until = [&](size_t end) {
    for (; range != ranges.end() && range->end <= end; ++range) {
      const ir::Program part = ir::segment(program, range->begin, range->end - 1);
      runtime::Step step;
      step.kernel = own(part);
      for (const std::string& name : argument_names(part)) step.arguments.push_back(place(name));
      steps.push_back(step);
    }
  };
  for (const LibraryChoice& choice : choices) {
    if (!choice.taken) continue;
    compile_until(choice.call.first);
    runtime::Step step;
    step.call = choice.call;
    for (const ir::LibraryOperand* operand : {&choice.call.a, &choice.call.b, &choice.call.result})
      step.arguments.push_back(place(operand->tensor));
    steps.push_back(step);
    made(choice);
  }
  compile_until(program.statements.size());
  return runtime::make_sequence(std::move(steps), arguments, std::move(workspaces), library);
}

Notes describe(const ir::Program& program, const LibraryChoice& choice) {
  Notes notes;
  for (size_t s = choice.call.first; s <= choice.call.last; ++s)
    notes.push_back(plan::describe_statement(program.statements[s]));
  notes.push_back({"library", "call: " + to_string(choice)});
  return notes;
}

std::string to_string(const LibraryChoice& choice) {
  char figures[96];
  if (choice.measured)
    std::snprintf(figures, sizeof figures, "measured %.3g ms, %.3g for a kernel of ours",
                  choice.theirs * 1e3, choice.own * 1e3);
  else
    std::snprintf(figures, sizeof figures, "expected %.3g M cycles, %.3g for a kernel of ours",
                  choice.theirs / 1e6, choice.own / 1e6);
  return concat(choice.library->name, ", ", ir::to_string(choice.call), "\n", figures);
}

}  // namespace tc
