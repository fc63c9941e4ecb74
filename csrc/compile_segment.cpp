#include "compile_segment.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "base/checksum.h"
#include "base/passes.h"
#include "codegen/cuda/gpu_loops.h"
#include "group_kernels.h"
#include "ir/accesses.h"
#include "ir/segment.h"
#include "ir/work.h"
#include "machine/facts.h"
#include "machine/limits.h"
#include "nest/build.h"
#include "nest/loops.h"
#include "nest/private_temporaries.h"
#include "plan/options/segments.h"
#include "plan/plan_program.h"
#include "program_passes.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/driver.h"
#include "runtime/nontemporal.h"
#include "store/code_folder.h"

namespace tc {
namespace {

using codegen::Texts;
using nest::Nest;

const Pass kJoinLoops("schedule", "join_loops");
const Pass kMakeTemporariesPrivate("kernel", "make_temporaries_private");
const Pass kFindStreamed("kernel", "find_streamed");

/// Of results, with their sizes in bytes, those that leave a last cache of this size before
/// somebody reads them, beside so much that is read (benchmarks/thresholds.md).
std::map<std::string, int64_t> find_streamed(const std::map<std::string, int64_t>& results,
                                             int64_t read, int64_t cache) {
  int64_t written = 0;
  for (const auto& [name, bytes] : results) written += bytes;
  std::map<std::string, int64_t> streamed;
  if (cache == 0 || (read + written) < cache / 4 * 3 || read < written / 2) return streamed;
  for (const auto& result : results)
    if (result.second >= cache / 4) streamed.insert(result);
  return streamed;
}

/// One function for all clusters.
std::shared_ptr<runtime::Kernel> compile_cpu(Nest body, const ir::Program& program,
                                             const Layouts& layouts,
                                             const std::vector<std::string>& arguments,
                                             const std::map<std::string, poly::Slices>& slices,
                                             const Job& job, StageClock& clock, Notes& memory,
                                             codegen::CpuCode* kept) {
  std::set<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == ir::TensorRole::Temporary) temporaries.insert(name);
  const std::set<std::string> all = temporaries;
  body = run_pass(
      kMakeTemporariesPrivate,
      [&] { return nest::make_temporaries_private(body, temporaries, slices, job.machine); },
      [&](const Nest& made) { return made != body; });
  // Copies may compute all that is read of one. Of one without elements nothing is written, and
  // data may say that it is read.
  const std::set<std::string> used = nest::used_buffers(body);
  std::vector<runtime::Workspace> workspaces;
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  codegen::BufferFacts facts;
  for (const std::string& name : temporaries) {
    if (!used.count(name)) continue;
    facts.temporaries.insert(name);
    buffers.insert(name);
    workspaces.push_back({name, dense_bytes(program.tensor(name), layouts.at(name))});
  }
  nest::verify(body, buffers);
  // Copies take half the second-level cache.
  const int64_t cache = 2 * job.machine.cache_bytes;
  std::map<std::string, int64_t> results;
  int64_t read = 0;
  for (const std::string& name : buffers) {
    if (!layouts.count(name)) continue;
    const std::vector<int64_t>& sizes = layouts.at(name).sizes;
    if (std::count(sizes.begin(), sizes.end(), 0) > 0) facts.empty.insert(name);
    const int64_t bytes = dense_bytes(program.tensor(name), layouts.at(name));
    if (bytes > cache) facts.large.insert(name);
    if (bytes > cache && ir::reaches_far(name, program, layouts, job.machine.cache_bytes))
      facts.far_gathers.insert(name);
    if (program.tensor(name).role == ir::TensorRole::Output) results.emplace(name, bytes);
    if (program.tensor(name).role == ir::TensorRole::Input) read += bytes;
  }
  if (runtime::has_nontemporal_stores())
    facts.streamed = run_pass(
        kFindStreamed, [&] { return find_streamed(results, read, job.machine.last_cache_bytes); },
        [](const auto& found) { return !found.empty(); });
  facts.least_streamed_row = job.machine.least(machine::kStreamedRow);
  facts.machine = job.machine;
  auto kernel =
      codegen::compile_cpu("tc_kernel", body, arguments, workspaces, facts, job.texts, clock, kept);
  if (job.texts == Texts::All) kernel->texts["loop_nest"] = nest::to_string(body);
  memory = describe_memory(workspaces, all, *kernel);
  return kernel;
}

/// The loops of groups; the schedule trees go behind `tree`, where one is wanted.
std::vector<Nest> make_parts(const Scheduled& scheduled, const std::vector<size_t>& groups,
                             std::string* tree, StageClock& clock) {
  std::vector<Nest> parts;
  for (size_t group : groups) {
    const poly::Mapped& part = scheduled.plan.groups[group].mapped;
    const Nest made = nest::hoist_conditions(nest::build(scheduled.scop, part, scheduled.layouts));
    if (part.joined)
      run_always(kJoinLoops,
                 [&] { parts.back() = nest::join_loops(parts.back(), made, part.joined); });
    else
      parts.push_back(made);
    if (tree) *tree += poly::to_string(part.schedule);
  }
  clock.done("ast");
  return parts;
}

/// The numbers of all groups.
std::vector<size_t> all_groups(const Scheduled& scheduled) {
  std::vector<size_t> groups(scheduled.plan.groups.size());
  std::iota(groups.begin(), groups.end(), size_t{0});
  return groups;
}

/// What became of a program in front of its code.
void describe(const ir::Program& program, const Scheduled& scheduled, const Job& job,
              Compiled& compiled) {
  Explanation& explanation = compiled.explanation;
  const Notes changes = describe_changes(program, scheduled.program);
  explanation.program.insert(explanation.program.end(), changes.begin(), changes.end());
  explanation.floating_point = explanation.floating_point.value_or(0) +
                               ir::count_work(scheduled.program, scheduled.layouts).floating_point;
  for (const std::string& name : scheduled.plan.absent)
    compiled.absent.push_back(plan::name_in_segment(name, job.segment));
  for (const plan::Proposal& group : scheduled.plan.groups) {
    explanation.groups.push_back({group.mapped.notes, group.estimate.total()});
    if (group.plan.statements.empty()) continue;
    compiled.plans.push_back(group.plan);
    for (std::string& name : compiled.plans.back().statements)
      name = plan::name_in_segment(name, job.segment);
  }
}

codegen::GpuBuffer gpu_temporary(const ir::Tensor& tensor, const Layout& layout) {
  codegen::GpuBuffer temporary;
  temporary.name = tensor.name;
  temporary.type = memory_type(tensor.type);
  temporary.written = true;
  temporary.elements = count_allocated(layout);
  return temporary;
}

/// One launch a cluster.
Compiled compile_cuda(const ir::Program& program, const Layouts& layouts, const Job& job,
                      StageClock& clock) {
  Compiled compiled;
  codegen::GpuProgram gpu;
  std::map<std::string, ir::Tensor> temporaries;  // of all segments so far
  std::string text, tree;
  const size_t end = program.statements.size();
  std::vector<size_t> cuts = ir::find_cuts(program, 0, end, kMostStatements);
  cuts.push_back(end);
  size_t begin = 0, segments = 0;
  for (size_t cut : cuts) {
    ir::Program part = end == 0 ? program : ir::segment(program, begin, cut - 1);
    begin = cut;
    // What a segment adds gets a name that no other one uses.
    part.tensors.insert(temporaries.begin(), temporaries.end());
    const Job own = cuts.size() > 1 ? for_segment(job, ++segments) : job;
    auto scheduled = simplify_and_schedule(part, layouts, own, clock);
    describe(part, *scheduled, own, compiled);
    const std::vector<std::string> arguments = argument_names(scheduled->program);
    std::set<std::string> buffers(arguments.begin(), arguments.end());
    for (const auto& [name, tensor] : scheduled->program.tensors) {
      if (tensor.role == ir::TensorRole::Temporary) buffers.insert(name);
      auto given = program.tensors.find(name);
      const bool inner =
          given == program.tensors.end() || given->second.role == ir::TensorRole::Temporary;
      if (!inner || !temporaries.emplace(name, tensor).second) continue;
      temporaries.at(name).role = ir::TensorRole::Temporary;
      gpu.temporaries.push_back(gpu_temporary(tensor, scheduled->layouts.at(name)));
    }
    // The compiler of the code takes longer by far than texts.
    for (const Nest& part : make_parts(*scheduled, all_groups(*scheduled), &tree, clock)) {
      nest::verify(part, buffers);
      text += nest::to_string(part);
      gpu.launches.push_back(codegen::make_launch(concat(program.name, "_", gpu.launches.size()),
                                                  part, scheduled->program, job.options));
    }
    clock.done("gpu loops");
  }
  runtime::CudaTarget where{job.target.arch, job.target.device, job.target.offline};
  if (where.arch.empty()) where.arch = runtime::Device::get(job.target.device).arch();
  runtime::CudaProgram made = codegen::make_cuda_program(gpu);
  const CompileContext& context = job.context;
  const bool known =
      context.binary && crc32(made.source.data(), made.source.size()) == context.binary_checksum;
  const std::string key =
      known || context.trial ? std::string() : cuda_key_on_disk(made.source, where.arch);
  const std::optional<runtime::CudaBinary> found = find_cuda_on_disk(key);
  auto kernel = std::make_shared<runtime::CudaKernel>(
      std::move(made), argument_names(program), where,
      known ? *context.binary : found.value_or(runtime::CudaBinary()));
  if (!key.empty() && !found)
    store::keep_code(
        key, store::encode(runtime::CudaBinary{kernel->binary(), kernel->text("build_log"), {}}));
  clock.done(found ? "code on disk" : "nvrtc");
  describe_launches(gpu, where.arch, *kernel, compiled.explanation);
  kernel->texts["loop_nest"] = text;
  kernel->texts["launches"] = codegen::describe_launches(gpu);
  kernel->texts["schedule_tree"] = tree;
  compiled.kernel = std::move(kernel);
  return compiled;
}

}  // namespace

Job for_segment(const Job& job, size_t segment) {
  Job own = job;
  own.segment = segment;
  own.options = plan::options_of_segment(job.options, segment);
  return own;
}

std::unique_ptr<Scheduled> simplify_and_schedule(const ir::Program& given, const Layouts& layouts,
                                                 const Job& job, StageClock& clock) {
  Simplified simplified =
      simplify_program(given, layouts, job.options, job.target.cuda, job.machine);
  clock.done("simplify program");
  auto result =
      std::make_unique<Scheduled>(std::move(simplified.program), std::move(simplified.layouts));
  clock.done("scop");
  result->plan = plan::plan_program(result->scop, result->layouts, job.options, job.target.cuda,
                                    job.machine, clock);
  return result;
}

Compiled compile_segment(const ir::Program& program, const Layouts& layouts, const Job& job,
                         StageClock& clock) {
  if (job.target.cuda) return compile_cuda(program, layouts, job, clock);
  if (job.found) {
    Compiled found;
    found.kernel = job.found->load();
    clock.done("code on disk");
    return found;
  }
  auto scheduled = simplify_and_schedule(program, layouts, job, clock);
  Compiled compiled;
  describe(program, *scheduled, job, compiled);
  compiled.explanation.machine = job.machine;
  const bool texts = job.texts == Texts::All;
  std::string tree;
  codegen::CpuCode code;
  const bool shares = job.context.trial && !job.context.subject.empty();
  const std::string made_for =
      shares ? concat(job.context.subject, "\n", machine::values(job.machine)) : std::string();
  const auto compile = [&](const std::vector<size_t>& groups, const ir::Program& of,
                           const std::vector<std::string>& arguments) {
    const Nest loops =
        nest::make_sequence(make_parts(*scheduled, groups, texts ? &tree : nullptr, clock));
    const auto make = [&] {
      return compile_cpu(loops, of, scheduled->layouts, arguments, scheduled->plan.slices, job,
                         clock, compiled.explanation.memory, job.keeps_code ? &code : nullptr);
    };
    return shares ? compile_once(loops, of, scheduled->layouts, arguments, made_for, make) : make();
  };
  const std::vector<std::string> arguments = argument_names(scheduled->program);
  if (shares)
    compiled.kernel = compile_group_by_group(*scheduled, arguments, job.machine, made_for, compile);
  if (!compiled.kernel)
    compiled.kernel = compile(all_groups(*scheduled), scheduled->program, arguments);
  if (job.keeps_code) compiled.code.push_back(std::move(code));
  if (texts) compiled.kernel->texts["schedule_tree"] = tree;
  return compiled;
}

}  // namespace tc
