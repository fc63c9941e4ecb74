#include "compile.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/passes.h"
#include "code_on_disk.h"
#include "codegen/cpu/cpu_jit.h"
#include "codegen/cuda/gpu_loops.h"
#include "explain.h"
#include "group_kernels.h"
#include "index_plan.h"
#include "ir/compare.h"
#include "ir/segment.h"
#include "ir/work.h"
#include "library_plan.h"
#include "machine/facts.h"
#include "machine/limits.h"
#include "nest/build.h"
#include "nest/loops.h"
#include "nest/private_temporaries.h"
#include "plan/options/segments.h"
#include "plan/plan_program.h"
#include "poly/scop.h"
#include "program_passes.h"
#include "runtime/check_tensor.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/driver.h"
#include "runtime/libraries.h"
#include "runtime/nontemporal.h"
#include "schedule.h"
#include "store/code_folder.h"

namespace tc {
namespace {

using codegen::Texts;
using nest::Nest;

const Pass kJoinLoops("schedule", "join_loops");
const Pass kCallLibraries("kernel", "call_libraries");
const Pass kPlanIndexChecks("kernel", "plan_index_checks");
const Pass kCheckInLoops("kernel", "check_in_loops");
const Pass kCheckBefore("kernel", "check_before");
const Pass kMakeTemporariesPrivate("kernel", "make_temporaries_private");
const Pass kFindStreamed("kernel", "find_streamed");

/// What programs are compiled for, and what is wanted beside the code.
struct Job {
  MappingOptions options;
  Target target;
  CpuMachine machine;
  Texts texts = Texts::Short;
  size_t segment = 0;  ///< which one of a program's, counted from 1; 0: all of it
  CompileContext context{};
  bool keeps_code = false;             ///< whether it is wanted as data
  std::shared_ptr<FoundCode> found{};  ///< taken in the place of what would be compiled
};

/// The job for a segment, with the options that are of it.
Job for_segment(const Job& job, size_t segment) {
  Job own = job;
  own.segment = segment;
  own.options = plan::options_of_segment(job.options, segment);
  return own;
}

// Statements that are scheduled and compiled together. What takes longer than in proportion to the
// number of statements stays short (dependences, LLVM's passes over one function), which no model
// of the processor knows, and nothing is fused across the borders. The longest derivative in ops/
// has 33.
constexpr size_t kMostStatements = 64;

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
                                             const std::map<std::string, Layout>& layouts,
                                             const std::vector<std::string>& arguments,
                                             const std::map<std::string, poly::Slices>& slices,
                                             const Job& job, StageClock& clock, Notes& memory,
                                             codegen::CpuCode* kept) {
  std::set<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == ir::TensorRole::Temporary) temporaries.insert(name);
  std::set<std::string> all = temporaries;
  body = run_pass(
      kMakeTemporariesPrivate,
      [&] { return nest::make_temporaries_private(body, temporaries, slices, job.machine); },
      [&](const Nest& made) { return made != body; });
  // Copies may compute all that is read of one. Of one without elements nothing is written, and
  // data may say that it is read.
  std::set<std::string> used = nest::stored_buffers(body);
  used.merge(nest::loaded_buffers(body));
  for (auto name = temporaries.begin(); name != temporaries.end();)
    name = used.count(*name) ? std::next(name) : temporaries.erase(name);
  std::vector<runtime::Workspace> workspaces;
  std::set<std::string> buffers(arguments.begin(), arguments.end());
  for (const std::string& name : temporaries) {
    buffers.insert(name);
    workspaces.push_back({name, dense_bytes(program.tensor(name), layouts.at(name))});
  }
  nest::verify(body, buffers);
  // Copies take half the second-level cache.
  const int64_t cache = 2 * job.machine.cache_bytes;
  codegen::BufferFacts facts;
  std::map<std::string, int64_t> results;
  int64_t read = 0;
  facts.temporaries = temporaries;
  for (const std::string& name : buffers) {
    if (!layouts.count(name)) continue;
    const std::vector<int64_t>& sizes = layouts.at(name).sizes;
    if (std::count(sizes.begin(), sizes.end(), 0) > 0) facts.empty.insert(name);
    const int64_t bytes = dense_bytes(program.tensor(name), layouts.at(name));
    if (bytes > cache) facts.large.insert(name);
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

std::unique_ptr<Scheduled> simplify_and_schedule(const ir::Program& given,
                                                 const std::map<std::string, Layout>& layouts,
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

std::vector<std::string> arguments_of(const ir::Program& program) {
  std::vector<std::string> arguments;
  for (const ir::Parameter& parameter : program.parameters) arguments.push_back(parameter.name);
  for (const std::string& output : program.outputs) arguments.push_back(output);
  return arguments;
}

/// A kernel and how it came about.
struct Compiled {
  std::shared_ptr<runtime::Kernel> kernel;
  Explanation explanation;
  std::vector<plan::ClusterPlan> plans;  ///< of all clusters, in order of execution
  std::vector<codegen::CpuCode> code;    ///< of its functions, where a job keeps it
};

/// What became of a program in front of its code.
void describe(const ir::Program& program, const Scheduled& scheduled, const Job& job,
              Compiled& compiled) {
  Explanation& explanation = compiled.explanation;
  const Notes changes = describe_changes(program, scheduled.program);
  explanation.program.insert(explanation.program.end(), changes.begin(), changes.end());
  explanation.floating_point = explanation.floating_point.value_or(0) +
                               ir::count_work(scheduled.program, scheduled.layouts).floating_point;
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
Compiled compile_cuda(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                      const Job& job, StageClock& clock) {
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
    const std::vector<std::string> arguments = arguments_of(scheduled->program);
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
      std::move(made), arguments_of(program), where,
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

/// One kernel of one function on the CPU.
Compiled compile_own(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                     const Job& job, StageClock& clock) {
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
  const std::vector<std::string> arguments = arguments_of(scheduled->program);
  if (shares)
    compiled.kernel = compile_group_by_group(*scheduled, arguments, job.machine, made_for, compile);
  if (!compiled.kernel)
    compiled.kernel = compile(all_groups(*scheduled), scheduled->program, arguments);
  if (job.keeps_code) compiled.code.push_back(std::move(code));
  if (texts) compiled.kernel->texts["schedule_tree"] = tree;
  return compiled;
}

}  // namespace

Target parse_target(const std::string& text) {
  Target target;
  if (text == "cpu") return target;
  target.cuda = true;
  if (text == "cuda") return target;
  const std::string prefix = "cuda:sm_";
  constexpr size_t kMostDigits = 4;
  if (text.rfind(prefix, 0) == 0 && text.size() > prefix.size() &&
      text.size() <= prefix.size() + kMostDigits &&
      text.find_first_not_of("0123456789", prefix.size()) == std::string::npos) {
    target.arch = text.substr(5);
    target.offline = true;
    return target;
  }
  throw UsageError(concat("unknown target '", text,
                          "'; use \"cpu\", \"cuda\", or \"cuda:sm_90\" "
                          "with the number of an architecture"));
}

namespace {

/// With the calls that were chosen, and a kernel for every segment of statements around them.
Compiled compile_with_calls(const ir::Program& given, const std::map<std::string, Layout>& all,
                            const std::vector<LibraryChoice>& choices, const Job& job,
                            StageClock& clock) {
  const auto taken = std::find_if(choices.begin(), choices.end(),
                                  [](const LibraryChoice& choice) { return choice.taken; });
  const bool calls = taken != choices.end();
  if (job.target.cuda || (!calls && given.statements.size() <= kMostStatements))
    return compile_own(given, all, job, clock);
  Compiled compiled;
  compiled.explanation.machine = job.machine;
  size_t segments = 0;
  compiled.kernel = compile_around_calls(
      given, all, choices, calls ? taken->library : nullptr, kMostStatements,
      [&](const ir::Program& part) {
        Compiled own = compile_own(part, all, for_segment(job, ++segments), clock);
        append(own.explanation, compiled.explanation);
        compiled.plans.insert(compiled.plans.end(), own.plans.begin(), own.plans.end());
        compiled.code.insert(compiled.code.end(), own.code.begin(), own.code.end());
        return own.kernel;
      },
      [&](const LibraryChoice& choice) {
        compiled.explanation.groups.push_back({describe(given, choice), 0});
      });
  return compiled;
}

/// Calls of the library that could be made, and which are faster than kernels of ours. Where all of
/// the program was compiled to be measured, `compiled` is that.
std::vector<LibraryChoice> choose_calls(const ir::Program& given,
                                        const std::map<std::string, Layout>& all, const Job& job,
                                        const tc_libraries& library, StageClock& clock,
                                        Compiled& compiled) {
  if (job.options.library_calls)
    return take_library_calls(given, all, library, *job.options.library_calls);
  OwnKernels own;
  own.made_for = concat(to_string(job.options), "\n", machine::values(job.machine));
  own.cycles = [&](const ir::Program& part) {
    StageClock apart;
    auto scheduled = simplify_and_schedule(part, all, job, apart);
    double cycles = 0;
    for (const plan::Proposal& group : scheduled->plan.groups) cycles += group.estimate.total();
    return cycles;
  };
  own.kernel = [&](const ir::Program& part) {
    Compiled mine = compile_with_calls(part, all, {}, job, clock);
    // Nothing else is to be compiled where these are all statements.
    if (part.statements.size() == given.statements.size()) compiled = mine;
    return mine.kernel;
  };
  auto choices = run_pass(
      kCallLibraries, [&] { return choose_library_calls(given, all, job.machine, library, own); },
      [](const auto& made) {
        return std::any_of(made.begin(), made.end(),
                           [](const LibraryChoice& choice) { return choice.taken; });
      });
  if (!choices.empty()) clock.done("library calls");
  return choices;
}

bool may_call_libraries(const Job& job) {
  if (job.options.library_calls && job.options.library_calls->empty()) return false;
  const bool open = job.options.library_calls.has_value() ||
                    (job.options.preset == "default" && !job.options.decides_loops());
  return job.options.match_library_calls.value_or(open) && !job.options.identity &&
         !job.target.cuda && runtime::libraries();
}

/// The program with those of its index checks that are made in its loops.
ir::Program with_checks(const ir::Program& given, const Job& job, IndexPlan& indices) {
  if (job.options.check_indices)
    indices = run_pass(
        kPlanIndexChecks, [&] { return plan_index_checks(given, job.target.cuda); },
        [](const IndexPlan& plan) { return !plan.checks.empty(); });
  return run_pass(
      kCheckInLoops,
      [&] {
        return ir::check_in_loops(given, indices.checks, indices.in_loops,
                                  /*positions=*/job.target.cuda);
      },
      [&](const ir::Program& made) { return !ir::same(given, made); });
}

/// All that was decided: given as options, it is decided so again.
MappingOptions whole_plan(const ir::Program& program, const Job& job,
                          const std::vector<plan::ClusterPlan>& plans,
                          const std::vector<LibraryChoice>& choices) {
  MappingOptions whole = job.options;
  if (whole.identity) return whole;
  whole.clusters.clear();
  for (const plan::ClusterPlan& plan : plans) whole.clusters.push_back(plan::to_options(plan));
  if (job.target.cuda) return whole;
  whole.match_library_calls.reset();
  whole.library_calls.emplace();
  for (const LibraryChoice& choice : choices)
    if (choice.taken) whole.library_calls->push_back(program.statements[choice.call.first].name);
  return whole;
}

/// CompilationError where options speak of a statement that there is not.
void check_statements(const MappingOptions& options, const std::vector<plan::ClusterPlan>& plans) {
  std::set<std::string> known;
  for (const plan::ClusterPlan& plan : plans)
    for (const std::string& id : plan.statements) {
      const std::string name = id.substr(id.find(plan::kOfSegment) + 1);
      known.insert({id, name});
      const size_t init = name.rfind("_init");
      if (init != std::string::npos) known.insert(name.substr(0, init));
    }
  for (const plan::ClusterOptions& cluster : options.clusters)
    for (const std::string& name : cluster.statements)
      if (known.count(name) == 0)
        throw CompilationError(concat("the options speak of a statement ", name,
                                      "; with loops of their own are ",
                                      join(std::vector<std::string>(known.begin(), known.end()))));
}

// Texts that the kernel's author alone looks at.
constexpr const char* kLongTexts[] = {"schedule_tree", "loop_nest", "stmt"};

bool logs_long_texts() {
  return std::any_of(std::begin(kLongTexts), std::end(kLongTexts),
                     [](const char* topic) { return log_enabled(topic); });
}

/// The calls of a kernel that was found on disk.
std::vector<LibraryChoice> calls_of(const store::CompiledKernel& found, const ir::Program& program,
                                    const std::map<std::string, Layout>& layouts) {
  const auto calls = parse_options(found.texts.at("options")).library_calls;
  if (!calls || calls->empty()) return {};
  return take_library_calls(program, layouts, *runtime::libraries(), *calls);
}

/// Compiles, or links what was `found` on disk.
std::shared_ptr<const runtime::Kernel> make_kernel(const ir::Program& given,
                                                   const std::map<std::string, Layout>& layouts,
                                                   Job job, const std::string& key,
                                                   const store::CompiledKernel* found) {
  StageClock clock;
  job.keeps_code = !key.empty() && !found;
  if (found) job.found = std::make_shared<FoundCode>(FoundCode{found->functions});
  const std::map<std::string, Layout> all = with_temporaries(given, layouts);
  IndexPlan indices;
  const ir::Program program = with_checks(given, job, indices);
  std::vector<LibraryChoice> choices;
  Compiled compiled;
  if (found)
    choices = calls_of(*found, program, all);
  else if (may_call_libraries(job))
    choices = choose_calls(program, all, job, *runtime::libraries(), clock, compiled);
  const bool calls = std::any_of(choices.begin(), choices.end(),
                                 [](const LibraryChoice& choice) { return choice.taken; });
  if (calls || !compiled.kernel) compiled = compile_with_calls(program, all, choices, job, clock);
  if (!job.options.identity && !found) check_statements(job.options, compiled.plans);
  std::shared_ptr<runtime::Kernel> kernel = compiled.kernel;
  std::shared_ptr<runtime::Kernel> checked;
  auto helpers = std::make_shared<HelperCode>();
  if (!indices.checks.empty() && job.target.cuda) {
    kernel->bad_index_text = [name = given.name, checks = indices.checks](
                                 int check, int64_t position, int64_t index) {
      return runtime::describe_bad_index(name, checks.at(static_cast<size_t>(check)), true,
                                         position, index, "The outputs hold no particular values");
    };
  } else if (!indices.checks.empty()) {
    helpers->keeps_code = job.keeps_code;
    helpers->found = job.found;
    auto own = [machine = job.machine, helpers](const ir::Program& part,
                                                const std::map<std::string, Layout>& known) {
      StageClock apart;
      Job helper{make_options("default"), Target(), machine};
      helper.keeps_code = helpers->open && helpers->keeps_code;
      helper.found = helpers->found;
      Compiled made = compile_with_calls(part, with_temporaries(part, known), {}, helper, apart);
      if (helper.keeps_code)
        helpers->code.insert(helpers->code.end(), made.code.begin(), made.code.end());
      return std::shared_ptr<const runtime::Kernel>(made.kernel);
    };
    checked = run_pass(
        kCheckBefore, [&] { return with_index_checks(kernel, given, all, indices, own); },
        [&](const auto&) { return !indices.ranges.empty() || !indices.compiled.empty(); });
    clock.done("index checks");
  }
  if (found) {
    kernel->texts.insert(found->texts.begin(), found->texts.end());
    kernel->texts["explain"] += to_string({{"code", concat("found in ", store::code_folder(),
                                                           "; the stages are those of "
                                                           "the process that made it")}});
  } else {
    Notes& notes = compiled.explanation.program;
    const Notes looked_at = describe(indices);
    notes.insert(notes.begin(), looked_at.begin(), looked_at.end());
    notes.insert(notes.begin(), job.context.notes.begin(), job.context.notes.end());
    for (const LibraryChoice& choice : choices)
      if (!choice.taken) notes.push_back({"library", "call left alone: " + to_string(choice)});
    kernel->texts["explain"] = explain(compiled.explanation, given, all, clock);
    kernel->texts["program"] = ir::to_string(given);
    kernel->texts["options"] = to_string(whole_plan(program, job, compiled.plans, choices));
  }
  kernel->texts["stages"] = clock.summary();
  double total = 0;
  for (const StageClock::Entry& entry : clock.entries()) total += entry.milliseconds;
  kernel->numbers["compile_microseconds"] = static_cast<int64_t>(total * 1000);
  if (job.keeps_code) {
    store::CompiledKernel kept{std::move(compiled.code), {}};
    kept.functions.insert(kept.functions.end(), helpers->code.begin(), helpers->code.end());
    for (const char* text : {"explain", "program", "options"})
      kept.texts[text] = kernel->texts[text];
    store::keep_code(key, store::encode(kept));
  }
  helpers->close();
  if (!job.target.cuda) {
    job.texts = Texts::All;
    job.context.trial = false;
    job.keeps_code = false;
    job.found.reset();
    kernel->make_texts = [program, all, choices, job] {
      StageClock apart;
      auto again = compile_with_calls(program, all, choices, job, apart).kernel;
      std::map<std::string, std::string> texts = again->texts;
      for (const char* text : kLongTexts) texts[text] = again->text(text);
      texts["assembly"] = again->text("assembly");
      return texts;
    };
  }
  for (const char* topic : {"program", "explain", "schedule_tree", "loop_nest", "stmt", "stages"})
    if (log_enabled(topic)) log(topic, given.name + ": " + kernel->text(topic));
  return checked ? checked : kernel;
}

}  // namespace

std::shared_ptr<const runtime::Kernel> compile(const ir::Program& given,
                                               const std::map<std::string, Layout>& layouts,
                                               const MappingOptions& options, const Target& target,
                                               const CpuMachine& machine,
                                               const CompileContext& context) {
  Job job{options, target, machine, logs_long_texts() ? Texts::All : Texts::Short, 0, context};
  // Who wants to see what the stages make has them run.
  const bool is_seen = job.texts == Texts::All || records_passes();
  const std::string key =
      target.cuda || is_seen ? std::string() : key_on_disk(options, machine, context);
  if (const auto found = find_on_disk(key)) {
    try {
      return make_kernel(given, layouts, job, key, &*found);
    } catch (const InternalError& error) {
      // What the code calls is not there, or it is other code than its key says.
      if (log_has_sink() || log_enabled("code"))
        log("code", concat(given.name, " is compiled anew: ", error.what()));
    }
  }
  return make_kernel(given, layouts, job, key, nullptr);
}

std::vector<std::string> library_statements(const ir::Program& program,
                                            const std::map<std::string, Layout>& layouts) {
  std::vector<std::string> names;
  if (!runtime::libraries()) return names;
  for (const ir::LibraryCall& call :
       ir::match_library_calls(program, with_temporaries(program, layouts)))
    names.push_back(program.statements[call.first].name);
  return names;
}

std::vector<std::shared_ptr<const Scheduled>> schedule_parts(
    const ir::Program& given, const std::map<std::string, Layout>& layouts,
    const MappingOptions& options, const Target& target, const CpuMachine& machine) {
  const Job job{options, target, machine};
  StageClock clock;
  const std::map<std::string, Layout> all = with_temporaries(given, layouts);
  IndexPlan indices;
  const ir::Program program = with_checks(given, job, indices);
  std::vector<LibraryChoice> choices;
  if (may_call_libraries(job) && options.library_calls)
    choices = take_library_calls(program, all, *runtime::libraries(), *options.library_calls);
  const std::vector<StatementRange> ranges = ranges_around_calls(program, choices, kMostStatements);
  const bool whole = ranges.size() == 1 && choices.empty();
  std::vector<std::shared_ptr<const Scheduled>> parts;
  for (const StatementRange& range : ranges) {
    const size_t segment = whole ? 0 : parts.size() + 1;
    const ir::Program part = whole ? program : ir::segment(program, range.begin, range.end - 1);
    auto scheduled = simplify_and_schedule(part, all, for_segment(job, segment), clock);
    scheduled->segment = segment;
    parts.push_back(std::move(scheduled));
  }
  return parts;
}

}  // namespace tc
