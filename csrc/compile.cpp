#include "compile.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/passes.h"
#include "code_on_disk.h"
#include "compile_segment.h"
#include "explain.h"
#include "index_plan.h"
#include "ir/compare.h"
#include "ir/segment.h"
#include "library_plan.h"
#include "machine/facts.h"
#include "plan/options/segments.h"
#include "program_passes.h"
#include "runtime/libraries.h"
#include "schedule.h"
#include "store/code_folder.h"

namespace tc {

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
  throw UsageError(
      "unknown target '", text,
      "'; use \"cpu\", \"cuda\", or \"cuda:sm_90\" with the number of an architecture");
}

namespace {

using codegen::Texts;

const Pass kCallLibraries("kernel", "call_libraries");
const Pass kPlanIndexChecks("kernel", "plan_index_checks");
const Pass kCheckInLoops("kernel", "check_in_loops");
const Pass kCheckBefore("kernel", "check_before");

bool are_taken(const std::vector<LibraryChoice>& choices) {
  return std::any_of(choices.begin(), choices.end(),
                     [](const LibraryChoice& choice) { return choice.taken; });
}

/// With the calls that were chosen, and a kernel for every segment of statements around them.
Compiled compile_with_calls(const ir::Program& given, const Layouts& all,
                            const std::vector<LibraryChoice>& choices, const Job& job,
                            StageClock& clock) {
  const bool calls = are_taken(choices);
  if (job.target.cuda || (!calls && given.statements.size() <= kMostStatements))
    return compile_segment(given, all, job, clock);
  Compiled compiled;
  compiled.explanation.machine = job.machine;
  size_t segments = 0;
  compiled.kernel = compile_around_calls(
      given, all, choices, calls ? choices.front().library : nullptr, kMostStatements,
      [&](const ir::Program& part) {
        Compiled own = compile_segment(part, all, for_segment(job, ++segments), clock);
        append(own.explanation, compiled.explanation);
        compiled.plans.insert(compiled.plans.end(), own.plans.begin(), own.plans.end());
        compiled.absent.insert(compiled.absent.end(), own.absent.begin(), own.absent.end());
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
std::vector<LibraryChoice> choose_calls(const ir::Program& given, const Layouts& all,
                                        const Job& job, const tc_libraries& library,
                                        StageClock& clock, Compiled& compiled) {
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
      are_taken);
  if (!choices.empty()) clock.done("library calls");
  return choices;
}

bool may_call_libraries(const Job& job, const tc_libraries* library) {
  if (job.options.library_calls && job.options.library_calls->empty()) return false;
  const bool open = job.options.library_calls.has_value() ||
                    (job.options.preset == "default" && !job.options.decides_loops());
  return job.options.match_library_calls.value_or(open) && !job.options.identity &&
         !job.target.cuda && library;
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
void check_statements(const MappingOptions& options, bool cuda, const Compiled& compiled) {
  std::set<std::string> known;
  const auto add = [&](const std::string& id) {
    const std::string name = id.substr(id.find(plan::kOfSegment) + 1);
    known.insert({id, name});
    const size_t init = name.rfind("_init");
    if (init != std::string::npos) known.insert(name.substr(0, init));
  };
  for (const plan::ClusterPlan& plan : compiled.plans)
    for (const std::string& id : plan.statements) add(id);
  for (const std::string& id : compiled.absent) add(id);
  for (const plan::ClusterOptions& cluster : options.clusters)
    for (const std::string& name : cluster.statements)
      // A GPU takes of whole Plans for others what it can (see plan/forms/gpu).
      if (known.count(name) == 0 && !(cuda && plan::complete_plan(cluster)))
        throw CompilationError("the options speak of a statement ", name,
                               "; with loops of their own are ",
                               join(std::vector<std::string>(known.begin(), known.end())));
}

/// Compiles without checks by the same options, or by the compiler's own where these are a Plan for
/// other loops than are left without checks.
std::shared_ptr<const runtime::Kernel> compile_unchecked(
    const ir::Program& program, const Layouts& layouts, MappingOptions options,
    const Target& target, const CpuMachine& machine, CompileContext context) {
  context.binary.reset();  // the code of a kernel with checks
  options.check_indices = false;
  try {
    return compile(program, layouts, options, target, machine, context);
  } catch (const CompilationError&) {
    options = make_options("default");
    options.check_indices = false;
    return compile(program, layouts, options, target, machine, context);
  }
}

// Texts that the kernel's author alone looks at.
constexpr const char* kLongTexts[] = {"schedule_tree", "loop_nest", "stmt"};

bool logs_long_texts() {
  return std::any_of(std::begin(kLongTexts), std::end(kLongTexts),
                     [](const char* topic) { return log_enabled(topic); });
}

/// The calls of a kernel that was found on disk.
std::vector<LibraryChoice> calls_of(const store::CompiledKernel& found, const ir::Program& program,
                                    const Layouts& layouts, const tc_libraries* library) {
  const auto calls = parse_options(found.texts.at("options")).library_calls;
  if (!calls || calls->empty()) return {};
  // The key was made before: the host may have taken it away since.
  if (!library) throw InternalError(__FILE__, __LINE__, "the library that it calls is gone");
  return take_library_calls(program, layouts, *library, *calls);
}

/// Compiles, or links what was `found` on disk.
std::shared_ptr<const runtime::Kernel> make_kernel(const ir::Program& given, const Layouts& layouts,
                                                   Job job, const std::string& key,
                                                   const store::CompiledKernel* found) {
  StageClock clock;
  job.keeps_code = !key.empty() && !found;
  if (found) job.found = std::make_shared<FoundCode>(FoundCode{found->functions});
  const Layouts all = with_temporaries(given, layouts);
  IndexPlan indices;
  const ir::Program program = with_checks(given, job, indices);
  std::vector<LibraryChoice> choices;
  Compiled compiled;
  const tc_libraries* library = runtime::libraries();  // asked once: the host may change its mind
  if (found)
    choices = calls_of(*found, program, all, library);
  else if (may_call_libraries(job, library))
    choices = choose_calls(program, all, job, *library, clock, compiled);
  if (are_taken(choices) || !compiled.kernel)
    compiled = compile_with_calls(program, all, choices, job, clock);
  if (!job.options.identity && !found) check_statements(job.options, job.target.cuda, compiled);
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
    auto own = [machine = job.machine, helpers](const ir::Program& part, const Layouts& known) {
      StageClock apart;
      Job helper{make_options("default"), Target(), machine};
      helper.keeps_code = helpers->keeps_code;
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
  if (!indices.in_loops.empty() && !job.context.trial)
    (checked ? checked : kernel)->make_unchecked = [given, layouts, options = job.options,
                                                    target = job.target, machine = job.machine,
                                                    context = job.context] {
      return compile_unchecked(given, layouts, options, target, machine, context);
    };
  if (found) {
    kernel->texts.insert(found->texts.begin(), found->texts.end());
    kernel->texts["explain"] +=
        to_string({{"code", concat("found in ", store::code_folder(),
                                   "; the stages are those of the process that made it")}});
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
  *helpers = {};  // what is made later is no part of the kernel
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

std::shared_ptr<const runtime::Kernel> compile(const ir::Program& given, const Layouts& layouts,
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
      tell("code", concat(given.name, " is compiled anew: ", error.what()));
    }
  }
  return make_kernel(given, layouts, job, key, nullptr);
}

std::vector<std::string> library_statements(const ir::Program& program, const Layouts& layouts) {
  std::vector<std::string> names;
  if (!runtime::libraries()) return names;
  for (const ir::LibraryCall& call :
       ir::match_library_calls(program, with_temporaries(program, layouts)))
    names.push_back(program.statements[call.first].name);
  return names;
}

std::vector<std::shared_ptr<const Scheduled>> schedule_parts(const ir::Program& given,
                                                             const Layouts& layouts,
                                                             const MappingOptions& options,
                                                             const Target& target,
                                                             const CpuMachine& machine) {
  const Job job{options, target, machine};
  StageClock clock;
  const Layouts all = with_temporaries(given, layouts);
  IndexPlan indices;
  const ir::Program program = with_checks(given, job, indices);
  std::vector<LibraryChoice> choices;
  const tc_libraries* library = runtime::libraries();
  if (may_call_libraries(job, library) && options.library_calls)
    choices = take_library_calls(program, all, *library, *options.library_calls);
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
