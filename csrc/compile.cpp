#include "compile.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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
#include "ir/loops.h"
#include "ir/split_reductions.h"
#include "ir/verify.h"
#include "ir/widen_accumulators.h"
#include "poly/chain.h"
#include "poly/dependences.h"
#include "poly/fuse.h"
#include "poly/map_cpu.h"
#include "poly/map_gpu.h"
#include "poly/members.h"
#include "poly/scop.h"
#include "poly/to_stmt.h"
#include "runtime/cuda_kernel.h"
#include "runtime/driver.h"

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
    else
      throw UsageError(concat("TC_MACHINE: '", entry,
                              "' is not understood; it takes vector_bits (a multiple of 128), "
                              "vector_registers (at least ",
                              kFewestRegisters, "), cores and cache_bytes"));
  }
  return machine;
}

/// A schedule of its own for every cluster, in order of execution.
std::vector<poly::Mapped> schedule(const poly::Scop& scop, const ir::Program& program,
                                   const std::map<std::string, Layout>& layouts,
                                   const MappingOptions& options, const Target& target,
                                   StageClock& clock) {
  if (scop.statements.empty()) return {};
  if (options.identity) return {{scop.textual, {}, {"the loops of the text, unchanged"}}};
  poly::Dependences dependences = poly::find_dependences(scop);
  clock.done("dependences");
  std::vector<poly::Mapped> mapped;
  poly::CpuMachine machine = this_machine();
  // A strategy that was asked for is not extended.
  bool rows = options.automatic && !target.cuda &&
              options.outer_fusion == FusionStrategy::Preserve3Coincident;
  std::vector<poly::Cluster> clusters =
      poly::fuse(scop, dependences, options.outer_fusion, rows, layouts);
  if (rows) clusters = poly::chain(clusters, scop, dependences, layouts, options, machine);
  for (const poly::Cluster& cluster : clusters) {
    mapped.push_back(target.cuda
                         ? poly::Mapped{poly::map_gpu(cluster, program, layouts, options), {}, {}}
                         : poly::map_cpu(cluster, scop, layouts, options, machine));
    std::vector<std::string> statements;
    for (const poly::ScopStatement* statement : cluster.statements)
      if (!statement->initialization) statements.push_back(ir::to_string(*statement->source));
    std::vector<std::string>& notes = mapped.back().notes;
    if (!cluster.outer.empty())
      statements.push_back(concat(cluster.joined ? "in the loop of the group before: "
                                                 : "in one loop with the next group: ",
                                  poly::describe_outer_loops(cluster)));
    notes.insert(notes.begin(), statements.begin(), statements.end());
    if (cluster.joined) mapped.back().joined = cluster.outer[0].size();
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
  std::vector<codegen::Workspace> workspaces;
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  for (const std::string& name : temporaries) {
    buffers.insert(name);
    workspaces.push_back(
        {name, count_elements(layouts.at(name)) * memory_type(program.tensor(name).type).bytes()});
  }
  ir::verify(body, buffers);
  // Copies take half the second-level cache.
  int64_t cache = 2 * this_machine().cache_bytes;
  std::set<std::string> large;
  for (const std::string& name : buffers)
    if (layouts.count(name) &&
        count_elements(layouts.at(name)) * memory_type(program.tensor(name).type).bytes() > cache)
      large.insert(name);
  auto kernel = codegen::compile_cpu("tc_kernel", body, arguments, workspaces, large, clock);
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
                                               const std::map<std::string, Layout>& given_layouts,
                                               const MappingOptions& options,
                                               const Target& target) {
  StageClock clock;
  ir::Program program = ir::widen_accumulators(given);
  if (!options.identity) program = ir::inline_temporaries(program);
  std::map<std::string, Layout> layouts = given_layouts;
  for (const auto& [name, tensor] : program.tensors) {
    if (layouts.count(name)) continue;
    std::vector<int64_t> sizes;
    for (const ir::Expr& size : tensor.sizes)
      sizes.push_back(*Halide::Internal::as_const_int(size));
    layouts[name] = row_major(sizes);
  }
  // Tile sizes of the user speak of the dimensions of the text.
  if (options.automatic && !options.identity) {
    ir::collapse_dimensions(program, layouts);
    if (options.parallel && !target.cuda) ir::split_reductions(program, layouts);
  }
  clock.done("simplify program");
  std::vector<std::string> arguments;
  for (const ir::Parameter& parameter : program.parameters) arguments.push_back(parameter.name);
  for (const std::string& output : program.outputs) arguments.push_back(output);

  poly::Scop scop = poly::make_scop(program);
  clock.done("scop");
  std::vector<poly::Mapped> schedules = schedule(scop, program, layouts, options, target, clock);
  std::vector<Stmt> parts;
  std::string tree;
  for (const poly::Mapped& part : schedules) {
    Stmt stmt = poly::to_stmt(scop, part, layouts);
    if (part.joined)
      parts.back() = ir::join_loops(parts.back(), stmt, part.joined);
    else
      parts.push_back(stmt);
    tree += poly::to_string(part.schedule);
  }
  clock.done("ast");
  std::shared_ptr<runtime::Kernel> kernel =
      target.cuda ? compile_cuda(parts, program, layouts, arguments, options, target, clock)
                  : compile_cpu(parts, program, layouts, arguments, clock);
  kernel->texts["program"] = ir::to_string(given);
  kernel->texts["schedule_tree"] = tree;
  kernel->texts["explain"] = explain(program, layouts, schedules);
  kernel->texts["options"] = to_string(options);
  kernel->texts["stages"] = clock.summary();
  double total = 0;
  for (const StageClock::Entry& entry : clock.entries()) total += entry.milliseconds;
  kernel->numbers["compile_microseconds"] = static_cast<int64_t>(total * 1000);
  for (const char* topic : {"program", "schedule_tree", "loop_nest", "stmt", "stages"})
    if (log_enabled(topic)) log(topic, program.name + ": " + kernel->texts[topic]);
  return kernel;
}

}  // namespace tc
