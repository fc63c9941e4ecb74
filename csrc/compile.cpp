#include "compile.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "codegen/cpu_jit.h"
#include "codegen/gpu_loops.h"
#include "codegen/private_temporaries.h"
#include "explain.h"
#include "ir/collapse_dimensions.h"
#include "ir/inline_temporaries.h"
#include "ir/segment.h"
#include "ir/split_reductions.h"
#include "ir/verify.h"
#include "ir/widen_accumulators.h"
#include "library_plan.h"
#include "poly/dependences.h"
#include "poly/fuse.h"
#include "poly/map_cpu.h"
#include "poly/map_gpu.h"
#include "poly/scop.h"
#include "poly/to_stmt.h"
#include "runtime/cuda_kernel.h"
#include "runtime/driver.h"
#include "runtime/libraries.h"
#include "runtime/sequence.h"

namespace tc {
namespace {

using ir::Stmt;

/// This processor, or what TC_MACHINE says instead, so that decisions can be compared between
/// machines: "vector_bits=512,vector_registers=32,cores=2,cache_bytes=524288".
poly::CpuMachine this_machine() {
  poly::CpuMachine machine;
  machine.vector_bits = codegen::cpu_vector_bits();
  // AVX-512 came with twice the registers.
  machine.vector_registers = machine.vector_bits >= 512 ? 32 : 16;
  machine.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#ifdef _SC_LEVEL2_CACHE_SIZE
  int64_t second_level = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (second_level > 0) machine.cache_bytes = second_level / 2;
#endif
  const char* given = std::getenv("TC_MACHINE");
  std::istringstream entries(given ? given : "");
  for (std::string entry; std::getline(entries, entry, ',');) {
    size_t equals = entry.find('=');
    std::string key = entry.substr(0, equals);
    int64_t value = equals == std::string::npos ? 0 : std::atoll(entry.c_str() + equals + 1);
    if (value <= 0)
      throw UsageError(concat("TC_MACHINE: '", entry, "' is no name and number, as in cores=2"));
    // Fewer registers hold no block at all.
    constexpr int64_t kFewestRegisters = 8;
    if (key == "vector_bits" && value % 128 == 0)
      machine.vector_bits = static_cast<int>(value);
    else if (key == "vector_registers" && value >= kFewestRegisters)
      machine.vector_registers = static_cast<int>(value);
    else if (key == "cores")
      machine.cores = static_cast<int>(value);
    else if (key == "cache_bytes")
      machine.cache_bytes = value;
    else if (key == "library_rate")
      machine.library_rate = static_cast<double>(value);
    else if (key == "library_call_cycles")
      machine.library_call_cycles = static_cast<double>(value);
    else
      throw UsageError(concat("TC_MACHINE: '", entry,
                              "' is not understood; it takes vector_bits (a multiple of 128), "
                              "vector_registers (at least ",
                              kFewestRegisters, "), cores, cache_bytes, library_rate and library_call_cycles"));
  }
  return machine;
}

/// A schedule of its own for every cluster, in order of execution.
std::vector<poly::Mapped> schedule(const poly::Scop& scop, const ir::Program& program,
                                   const std::map<std::string, Layout>& layouts,
                                   const MappingOptions& options, const Target& target,
                                   const poly::CpuMachine& machine, StageClock& clock) {
  if (scop.statements.empty()) return {};
  if (options.identity) return {{scop.textual, {}, {"the loops of the text, unchanged"}}};
  poly::Dependences dependences = poly::find_dependences(scop);
  clock.done("dependences");
  std::vector<poly::Mapped> mapped;
  // A strategy that was asked for is not extended.
  bool rows = options.automatic && !target.cuda &&
              options.outer_fusion == FusionStrategy::Preserve3Coincident;
  for (const poly::Cluster& cluster :
       poly::fuse(scop, dependences, options.outer_fusion, rows, layouts)) {
    mapped.push_back(target.cuda
                         ? poly::Mapped{poly::map_gpu(cluster, program, layouts, options), {}, {}}
                         : poly::map_cpu(cluster, scop, layouts, options, machine));
    std::vector<std::string> statements;
    for (const poly::ScopStatement* statement : cluster.statements)
      if (!statement->initialization) statements.push_back(ir::to_string(*statement->source));
    std::vector<std::string>& notes = mapped.back().notes;
    notes.insert(notes.begin(), statements.begin(), statements.end());
  }
  clock.done("schedule");
  return mapped;
}

ir::Type memory_type(ir::Type type) { return type.is_bool() ? Halide::UInt(8) : type; }

int64_t count_elements(const Layout& layout) {
  int64_t elements = 1;
  for (int64_t size : layout.sizes) elements *= size;
  return std::max<int64_t>(1, elements);
}

/// Temporaries are row-major.
std::map<std::string, Layout> with_temporaries(const ir::Program& program,
                                               std::map<std::string, Layout> layouts) {
  for (const auto& [name, tensor] : program.tensors) {
    if (layouts.count(name)) continue;
    std::vector<int64_t> sizes;
    for (const ir::Expr& size : tensor.sizes)
      sizes.push_back(*Halide::Internal::as_const_int(size));
    layouts[name] = row_major(sizes);
  }
  return layouts;
}

std::string print(const Stmt& stmt) {
  std::ostringstream text;
  text << stmt;
  return text.str();
}

/// One function for all clusters.
std::shared_ptr<runtime::Kernel> compile_cpu(const std::vector<Stmt>& parts,
                                             const ir::Program& program,
                                             const std::map<std::string, Layout>& layouts,
                                             const std::vector<std::string>& arguments,
                                             StageClock& clock) {
  Stmt body =
      parts.empty() ? Halide::Internal::Evaluate::make(0) : Halide::Internal::Block::make(parts);
  std::set<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == ir::TensorRole::Temporary) temporaries.insert(name);
  body = codegen::make_temporaries_private(body, temporaries);
  std::vector<runtime::Workspace> workspaces;
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  for (const std::string& name : temporaries) {
    buffers.insert(name);
    workspaces.push_back(
        {name, count_elements(layouts.at(name)) * memory_type(program.tensor(name).type).bytes()});
  }
  ir::verify(body, buffers);
  auto kernel = codegen::compile_cpu("tc_kernel", body, arguments, workspaces, clock);
  kernel->texts["loop_nest"] = print(body);
  return kernel;
}

/// One launch a cluster.
std::shared_ptr<runtime::Kernel> compile_cuda(const std::vector<Stmt>& parts,
                                              const ir::Program& program,
                                              const std::map<std::string, Layout>& layouts,
                                              const std::vector<std::string>& arguments,
                                              const MappingOptions& options, const Target& target,
                                              StageClock& clock) {
  codegen::GpuProgram gpu;
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  for (const auto& [name, tensor] : program.tensors) {
    if (tensor.role != ir::TensorRole::Temporary) continue;
    buffers.insert(name);
    codegen::GpuBuffer temporary;
    temporary.name = name;
    temporary.type = memory_type(tensor.type);
    temporary.written = true;
    temporary.elements = count_elements(layouts.at(name));
    gpu.temporaries.push_back(temporary);
  }
  std::string nest;
  for (const Stmt& part : parts) {
    ir::verify(part, buffers);
    nest += print(part);
    std::string name = concat(program.name, "_", gpu.launches.size());
    gpu.launches.push_back(codegen::make_launch(name, part, program, layouts, options));
  }
  clock.done("gpu loops");
  runtime::CudaTarget where{target.arch, target.device, target.offline};
  if (where.arch.empty()) where.arch = runtime::Device::get(target.device).arch();
  auto kernel = std::make_shared<runtime::CudaKernel>(gpu, arguments, where);
  clock.done("nvrtc");
  kernel->texts["loop_nest"] = nest;
  kernel->texts["launches"] = codegen::describe_launches(gpu);
  return kernel;
}

/// A program on its way to a kernel.
struct Scheduled {
  ir::Program program;  ///< as it is mapped
  std::map<std::string, Layout> layouts;
  poly::Scop scop;
  std::vector<poly::Mapped> groups;
};

std::unique_ptr<Scheduled> simplify_and_schedule(const ir::Program& given,
                                                 const std::map<std::string, Layout>& layouts,
                                                 const MappingOptions& options,
                                                 const Target& target,
                                                 const poly::CpuMachine& machine,
                                                 StageClock& clock) {
  auto result = std::make_unique<Scheduled>();
  ir::Program& program = result->program;
  program = ir::widen_accumulators(given);
  if (!options.identity) program = ir::inline_temporaries(program);
  result->layouts = with_temporaries(program, layouts);
  // Tile sizes of the user speak of the dimensions of the text.
  if (options.automatic && !options.identity) {
    ir::collapse_dimensions(program, result->layouts);
    if (options.parallel && !target.cuda) ir::split_reductions(program, result->layouts);
  }
  clock.done("simplify program");
  result->scop = poly::make_scop(program);
  clock.done("scop");
  result->groups =
      schedule(result->scop, program, result->layouts, options, target, machine, clock);
  return result;
}

std::shared_ptr<runtime::Kernel> generate(const Scheduled& scheduled, const MappingOptions& options,
                                          const Target& target, StageClock& clock) {
  const ir::Program& program = scheduled.program;
  std::vector<std::string> arguments;
  for (const ir::Parameter& parameter : program.parameters) arguments.push_back(parameter.name);
  for (const std::string& output : program.outputs) arguments.push_back(output);
  std::vector<Stmt> parts;
  std::string tree;
  for (const poly::Mapped& part : scheduled.groups) {
    parts.push_back(poly::to_stmt(scheduled.scop, part, scheduled.layouts));
    tree += poly::to_string(part.schedule);
  }
  clock.done("ast");
  std::shared_ptr<runtime::Kernel> kernel =
      target.cuda
          ? compile_cuda(parts, program, scheduled.layouts, arguments, options, target, clock)
          : compile_cpu(parts, program, scheduled.layouts, arguments, clock);
  kernel->texts["schedule_tree"] = tree;
  return kernel;
}

/// Seconds of one run on memory of zeros and the host's threads, the best of a few.
double measure(const runtime::Kernel& kernel, const tc_host& host, const ir::Program& program,
               const std::map<std::string, Layout>& layouts) {
  constexpr int kRounds = 4;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<void*> pointers;
  auto add = [&](const std::string& name) {
    const Layout& layout = layouts.at(name);
    int64_t before = 0, elements = 1;
    for (size_t d = 0; d < layout.sizes.size(); ++d) {
      int64_t span = std::max<int64_t>(0, layout.sizes[d] - 1) * layout.strides[d];
      before += std::max<int64_t>(0, -span);
      elements += std::abs(span);
    }
    int64_t bytes = memory_type(program.tensor(name).type).bytes();
    memory.emplace_back(static_cast<size_t>(elements * bytes));
    pointers.push_back(memory.back().data() + before * bytes);
  };
  for (const ir::Parameter& parameter : program.parameters) add(parameter.name);
  for (const std::string& output : program.outputs) add(output);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    kernel.launch(host, pointers.data());
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

/// A kernel and what was decided for each of its fusion groups.
struct Compiled {
  std::shared_ptr<runtime::Kernel> kernel;
  std::vector<std::vector<std::string>> groups;
};

Compiled compile_own(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                     const MappingOptions& options, const Target& target,
                     const poly::CpuMachine& machine, StageClock& clock) {
  auto scheduled = simplify_and_schedule(program, layouts, options, target, machine, clock);
  Compiled compiled{generate(*scheduled, options, target, clock), {}};
  for (const poly::Mapped& group : scheduled->groups) compiled.groups.push_back(group.notes);
  return compiled;
}

/// The calls that are taken, and kernels for the statements in front of, between and behind them.
Compiled compile_around_calls(const ir::Program& program,
                              const std::map<std::string, Layout>& layouts,
                              const std::vector<LibraryChoice>& choices,
                              const tc_libraries& library, const MappingOptions& options,
                              const poly::CpuMachine& machine, StageClock& clock) {
  Compiled result;
  std::map<std::string, size_t> places;
  for (const ir::Parameter& parameter : program.parameters)
    places.emplace(parameter.name, places.size());
  for (const std::string& output : program.outputs) places.emplace(output, places.size());
  const size_t arguments = places.size();
  std::vector<runtime::Workspace> workspaces;
  auto place = [&](const std::string& name) {
    auto [found, added] = places.emplace(name, places.size());
    if (added)
      workspaces.push_back({name, count_elements(layouts.at(name)) *
                                      memory_type(program.tensor(name).type).bytes()});
    return found->second;
  };

  std::vector<runtime::Step> steps;
  size_t next = 0;
  auto own = [&](size_t end) {
    if (next == end) return;
    ir::Program part = ir::segment(program, next, end - 1);
    Compiled own = compile_own(part, layouts, options, Target(), machine, clock);
    result.groups.insert(result.groups.end(), own.groups.begin(), own.groups.end());
    runtime::Step step;
    step.kernel = own.kernel;
    for (const ir::Parameter& parameter : part.parameters)
      step.arguments.push_back(place(parameter.name));
    for (const std::string& output : part.outputs) step.arguments.push_back(place(output));
    steps.push_back(step);
  };
  for (const LibraryChoice& choice : choices) {
    if (!choice.taken) continue;
    const ir::LibraryCall& call = choice.call;
    own(call.first);
    next = call.last + 1;
    runtime::Step step;
    step.call = call;
    for (const ir::LibraryOperand* operand : {&call.a, &call.b, &call.result})
      step.arguments.push_back(place(operand->tensor));
    steps.push_back(step);
    std::vector<std::string> group;
    for (size_t s = call.first; s <= call.last; ++s)
      group.push_back(ir::to_string(program.statements[s]));
    group.push_back("library call: " + to_string(choice));
    result.groups.push_back(group);
  }
  own(program.statements.size());
  result.kernel =
      runtime::make_sequence(std::move(steps), arguments, std::move(workspaces), library);
  return result;
}

}  // namespace

Target parse_target(const std::string& text) {
  Target target;
  if (text == "cpu") return target;
  target.cuda = true;
  if (text == "cuda") return target;
  const std::string prefix = "cuda:sm_";
  if (text.rfind(prefix, 0) == 0 && text.size() > prefix.size() &&
      text.find_first_not_of("0123456789", prefix.size()) == std::string::npos) {
    target.arch = text.substr(5);
    target.offline = true;
    return target;
  }
  throw UsageError(concat("unknown target '", text,
                          "'; use \"cpu\", \"cuda\", or \"cuda:sm_90\" "
                          "with the number of an architecture"));
}

Layout row_major(const std::vector<int64_t>& sizes) {
  Layout layout{sizes, std::vector<int64_t>(sizes.size())};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    layout.strides[d] = stride;
    stride *= std::max<int64_t>(1, sizes[d]);
  }
  return layout;
}

std::shared_ptr<const runtime::Kernel> compile(const ir::Program& given,
                                               const std::map<std::string, Layout>& layouts,
                                               const MappingOptions& options,
                                               const Target& target) {
  StageClock clock;
  const poly::CpuMachine machine = this_machine();
  const std::map<std::string, Layout> all = with_temporaries(given, layouts);
  const tc_libraries* library = runtime::libraries();
  std::vector<LibraryChoice> choices;
  Compiled compiled;
  if (options.match_library_calls.value_or(options.automatic) && !options.identity &&
      !target.cuda && library) {
    OwnKernels own;
    own.cycles = [&](const ir::Program& part) {
      StageClock apart;
      auto scheduled = simplify_and_schedule(part, all, options, target, machine, apart);
      double cycles = 0;
      for (const poly::Mapped& group : scheduled->groups) cycles += group.cycles;
      return cycles;
    };
    own.seconds = [&](const ir::Program& part) {
      Compiled mine = compile_own(part, all, options, target, machine, clock);
      // Nothing else is to be compiled where these are all statements.
      if (part.statements.size() == given.statements.size()) compiled = mine;
      return measure(*mine.kernel, *library->host, part, all);
    };
    choices = choose_library_calls(given, all, machine, *library, own);
    if (!choices.empty()) clock.done("library calls");
  }
  bool calls = std::any_of(choices.begin(), choices.end(),
                           [](const LibraryChoice& choice) { return choice.taken; });
  if (calls)
    compiled = compile_around_calls(given, all, choices, *library, options, machine, clock);
  else if (!compiled.kernel)
    compiled = compile_own(given, layouts, options, target, machine, clock);
  std::shared_ptr<runtime::Kernel> kernel = compiled.kernel;
  kernel->texts["explain"] = explain(given, all, compiled.groups);
  for (const LibraryChoice& choice : choices)
    if (!choice.taken)
      kernel->texts["explain"] += "library call left alone: " + to_string(choice) + "\n";
  kernel->texts["program"] = ir::to_string(given);
  kernel->texts["options"] = to_string(options);
  kernel->texts["stages"] = clock.summary();
  double total = 0;
  for (const StageClock::Entry& entry : clock.entries()) total += entry.milliseconds;
  kernel->numbers["compile_microseconds"] = static_cast<int64_t>(total * 1000);
  for (const char* topic : {"program", "schedule_tree", "loop_nest", "stmt", "stages"})
    if (log_enabled(topic)) log(topic, given.name + ": " + kernel->text(topic));
  return kernel;
}

}  // namespace tc
