#include "explain.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "ir/work.h"
#include "runtime/cuda/nvrtc.h"

namespace tc {
namespace {

// Operations of the text's are said to be spared from here on.
constexpr double kFewer = 0.95;

/// Bits of the widest float that is computed; narrow ones are computed in 32.
int float_bits(const ir::Program& program) {
  int bits = 32;
  for (const ir::Statement& statement : program.statements)
    if (statement.value.type().is_float()) bits = std::max(bits, statement.value.type().bits());
  return bits;
}

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// How fast the model expects the whole to be, beside what the machine can do.
Note describe_speed(double cycles, const ir::Work& work, const ir::Program& program,
                    const CpuMachine& machine) {
  std::string text = count_text(cycles) + " cycles by the model, on one core, from its caches";
  if (work.floating_point > 0) {
    double peak = machine.peak_operations(float_bits(program));
    // The model takes what does not change out of loops, also where that is not done.
    if (work.floating_point > peak * cycles) {
      cycles = work.floating_point / peak;
      text += "\n" + count_text(cycles) + " cycles of arithmetic at the least";
    }
    double speed = work.floating_point / cycles;
    text += concat("\n", digits(speed), " floating-point operations a cycle, ",
                   digits(100 * speed / peak), " % of the peak of ", digits(peak));
  }
  return {"expected", concat(text, "\n", digits(work.bytes() / cycles),
                             " bytes a cycle from memory to keep that up")};
}

Note describe_stages(const StageClock& clock) {
  double total = 0;
  std::vector<std::string> parts;
  char text[64];
  for (const StageClock::Entry& entry : clock.entries()) {
    total += entry.milliseconds;
    std::snprintf(text, sizeof text, "%s %.1f", entry.stage, entry.milliseconds);
    parts.push_back(text);
  }
  std::snprintf(text, sizeof text, "%.1f ms: ", total);
  return {"compiled", text + join(parts)};
}

std::string size_text(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

Note describe_workspaces(const std::vector<runtime::Workspace>& workspaces) {
  std::vector<std::string> parts;
  for (const runtime::Workspace& workspace : workspaces)
    parts.push_back(workspace.name + " " + size_text(workspace.bytes));
  return {"workspace", parts.empty() ? "none" : join(parts)};
}

/// How a launch was cut, and what ptxas made of it.
Note describe_launch(const codegen::GpuLaunch& launch,
                     const std::vector<runtime::KernelResources>& resources) {
  auto sizes = [](const int64_t(&axes)[3]) {
    return concat(axes[0], " x ", axes[1], " x ", axes[2]);
  };
  int64_t shared = codegen::dynamic_shared_bytes(launch);
  std::string registers;
  for (const runtime::KernelResources& kernel : resources) {
    if (kernel.symbol != codegen::kernel_symbol(launch.name)) continue;
    shared += kernel.shared_bytes;
    registers = concat("\n", plural(kernel.registers, "register"), " a thread, ",
                       size_text(kernel.spill_bytes), " spilt");
  }
  return {"launch",
          concat(launch.name, ": grid ", sizes(launch.grid), ", block ", sizes(launch.block), ", ",
                 shared == 0 ? "nothing in shared memory" : size_text(shared) + " of shared memory",
                 registers)};
}

}  // namespace

void append(const Explanation& part, Explanation& whole) {
  for (auto member : {&Explanation::program, &Explanation::memory})
    (whole.*member).insert((whole.*member).end(), (part.*member).begin(), (part.*member).end());
  whole.groups.insert(whole.groups.end(), part.groups.begin(), part.groups.end());
}

Notes describe_changes(const ir::Program& given, const ir::Program& program) {
  std::vector<std::string> removed, made;
  for (const auto& [name, tensor] : given.tensors)
    if (!program.tensors.count(name)) removed.push_back(name);
  for (const auto& [name, tensor] : program.tensors)
    if (!given.tensors.count(name)) made.push_back(name);
  Notes notes;
  if (!removed.empty()) notes.push_back({"inlined", join(removed)});
  if (!made.empty()) notes.push_back({"added", join(made)});
  return notes;
}

Notes describe_memory(const std::vector<runtime::Workspace>& workspaces,
                      const std::set<std::string>& temporaries, const runtime::Kernel& kernel) {
  Notes notes = {describe_workspaces(workspaces)};
  std::vector<std::string> kept, scratch;
  for (const std::string& name : temporaries)
    if (std::none_of(workspaces.begin(), workspaces.end(),
                     [&](const runtime::Workspace& whole) { return whole.name == name; }))
      kept.push_back(name);
  if (!kept.empty())
    notes.push_back({"private", join(kept) + ": never whole, a part for every iteration"});
  int64_t task = kernel.number("task_scratch_bytes"), caller = kernel.number("scratch_bytes");
  if (task > 0) scratch.push_back(size_text(task) + " for every task");
  if (caller > 0) scratch.push_back(size_text(caller) + " for the caller");
  notes.push_back({"scratch", scratch.empty() ? "none" : join(scratch)});
  if (!kernel.streamed.empty())
    notes.push_back(
        {"streamed", join(kernel.streamed) + ": past the caches, in memory that was used before"});
  return notes;
}

void describe_launches(const codegen::GpuProgram& program, const std::string& arch,
                       const runtime::Kernel& kernel, Explanation& explanation) {
  auto resources = runtime::parse_resources(kernel.text("build_log"));
  for (size_t g = 0; g < program.launches.size(); ++g)
    explanation.groups[g].notes.push_back(describe_launch(program.launches[g], resources));
  std::vector<runtime::Workspace> workspaces;
  for (const codegen::GpuBuffer& buffer : program.temporaries)
    workspaces.push_back({buffer.name, buffer.elements * buffer.type.bytes()});
  explanation.memory = {describe_workspaces(workspaces)};
  explanation.target = "CUDA " + arch;
}

std::string explain(const Explanation& explanation, const ir::Program& given,
                    const Layouts& layouts, const StageClock& clock) {
  const size_t count = explanation.groups.size();
  std::string text =
      concat(given.name, " on ", explanation.target, ", ", plural(count, "group"), "\n");
  if (explanation.machine) text += to_string({{"machine", to_string(*explanation.machine)}});
  text += to_string(explanation.program);
  double cycles = 0;
  bool modelled = count > 0;
  for (size_t g = 0; g < count; ++g) {
    const Explanation::Group& group = explanation.groups[g];
    text += concat("\ngroup ", g + 1, "\n", to_string(group.notes));
    cycles += group.cycles;
    modelled = modelled && group.cycles > 0;
  }
  ir::Work work = ir::count_work(given, layouts);
  Notes whole = ir::describe(work);
  if (explanation.floating_point.value_or(work.floating_point) < kFewer * work.floating_point) {
    work.floating_point = *explanation.floating_point;
    whole.push_back({"computed", count_text(work.floating_point) +
                                     " floating-point operations, the others are spared"});
  }
  if (explanation.machine && modelled)
    whole.push_back(describe_speed(cycles, work, given, *explanation.machine));
  whole.insert(whole.end(), explanation.memory.begin(), explanation.memory.end());
  whole.push_back(describe_stages(clock));
  return text + "\nwhole\n" + to_string(whole);
}

}  // namespace tc
