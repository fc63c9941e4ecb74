#include "codegen/cpu/cpu_jit.h"

#include <algorithm>

#include "base/passes.h"
#include "codegen/cpu/checked_indices.h"
#include "codegen/cpu/cpu_kernel.h"
#include "codegen/cpu/host_target.h"
#include "codegen/lower_nest.h"
#include "codegen/math/common_calls.h"
#include "codegen/math/cpu_math.h"
#include "codegen/math/invariant_divisors.h"
#include "codegen/math/narrow_steps.h"
#include "codegen/math/strict_floats.h"
#include "codegen/math/vector_trigonometry.h"
#include "codegen/names.h"
#include "codegen/prefetch/prefetch_gathers.h"
#include "codegen/prefetch/prefetch_panels.h"
#include "codegen/prefetch/prefetch_parts.h"
#include "codegen/prefetch/prefetch_passes.h"
#include "codegen/prefetch/prefetch_rows.h"
#include "codegen/rename_buffers.h"
#include "codegen/tiles/accumulations.h"
#include "codegen/tiles/forward_values.h"
#include "codegen/tiles/register_tiles.h"
#include "codegen/vectors/copies.h"
#include "codegen/vectors/guarded_loads.h"
#include "codegen/vectors/joined_lanes.h"
#include "codegen/vectors/lane_gathers.h"
#include "codegen/vectors/near_gathers.h"
#include "codegen/vectors/stream_rows.h"
#include "codegen/vectors/vector_intrinsics.h"
#include "codegen/vectors/vector_loops.h"
#include "codegen/vectors/vector_reductions.h"
#include "codegen/vectors/vector_scans.h"
#include "codegen/workarounds/access_analysis.h"
#include "codegen/workarounds/changing_buffers.h"
#include "codegen/workarounds/half_comparisons.h"
#include "codegen/workarounds/hidden_zero.h"
#include "codegen/workarounds/large_arrays.h"
#include "codegen/workarounds/lift_lets.h"
#include "codegen/workarounds/nested_ramps.h"
#include "codegen/workarounds/nested_truncations.h"
#include "codegen/workarounds/split_blocks.h"
#include "ir/compare.h"
#include "ir/loops.h"
#include "nest/loops.h"

namespace tc::codegen {
namespace {

using Halide::Module;
using Facts = BufferFacts;

/// `strict`: LLVM may not take any float for a number.
Halide::Target host_target(bool strict = true) {
  static const Halide::Target target =
      restrict_target(Halide::get_host_target(), machine::usable_instruction_sets())
          .with_feature(Halide::Target::JIT)
          .with_feature(Halide::Target::NoAsserts)
          .with_feature(Halide::Target::NoBoundsQuery)
          .with_feature(Halide::Target::NoRuntime);
  return strict ? target.with_feature(Halide::Target::StrictFloat) : target;
}

/// Whether multiply-adds round once.
bool fuses(const Facts&) {
  const Halide::Target target = host_target();
  return target.arch == Halide::Target::ARM || target.has_feature(Halide::Target::FMA);
}

NarrowConversions narrow_conversions() {
  const Halide::Target target = host_target();
  // Where Halide knows of instructions.
  return {target.has_feature(Halide::Target::F16C) || target.has_feature(Halide::Target::ARMFp16),
          target.has_feature(Halide::Target::AVX512_Zen4)};
}

// All three of Halide's passes that follow unrolling name common subexpressions.
Expr name_common(const Expr& e) { return common_subexpression_elimination(e); }

const PassList<Nest, Facts> kNestPasses(
    "nest", nest::same, nest::to_string,
    {
        {"collapse_loops", "first: tasks are one loop, whose iterator later passes see as a value",
         [](Nest& n, Facts&) { n = nest::collapse_loops(n, Role::Parallel); }},
        {"expand_register_tiles",
         "needs the tiles as the Plan made them; what it makes are loops of constant "
         "sizes and local buffers, which prefetches count",
         [](Nest& n, Facts& facts) {
           n = expand_register_tiles(n, cpu_vector_bits(), facts.large, facts.temporaries);
         }},
        {"prefetch_panels",
         "needs expanded tiles, whose steps it counts, and loops that are no vectors yet",
         [](Nest& n, Facts& facts) { n = prefetch_panels(n, facts.large, facts.machine); }},
        {"prefetch_parts",
         "behind prefetch_panels, whose buffers it leaves alone; needs copies as nodes, "
         "from which it tells what they read",
         [](Nest& n, Facts& facts) { n = prefetch_parts(n, facts.large, facts.machine); }},
        {"vectorize_copies",
         "behind prefetch_parts, the last to ask what is a copy; makes vector loops for "
         "cut_vector_loops",
         [](Nest& n, Facts& facts) { n = vectorize_copies(n, cpu_vector_bits(), facts.machine); }},
        {"vectorize_scans",
         "in front of vectorize_reductions, which would make loops that go on from their "
         "neighbour serial",
         [](Nest& n, Facts&) { n = vectorize_scans(n, cpu_vector_bits()); }},
        {"vectorize_reductions",
         "in front of cut_vector_loops, which must not see loops that accumulate",
         [](Nest& n, Facts& facts) {
           n = vectorize_reductions(n, cpu_vector_bits(), facts.machine);
         }},
        {"choose_streamed", "needs vector loops that are whole rows",
         [](Nest& n, Facts& facts) {
           n = choose_streamed(n, facts.streamed, facts.least_streamed_row);
           facts.streams = streamed_buffers(n);
         }},
        {"stream_rows", "makes a vector loop of each row that streams, which cut_vector_loops cuts",
         [](Nest& n, Facts& facts) { n = stream_rows(n, facts.streamed); }},
        {"cut_vector_loops",
         "behind all that make vector loops of any extent; what follows sees vectors of "
         "the machine's width",
         [](Nest& n, Facts&) { n = cut_vector_loops(n, cpu_vector_bits()); }},
        {"prefetch_passes", "counts the lines that an iteration of cut loops reads",
         [](Nest& n, Facts& facts) { n = prefetch_passes(n, facts.large, facts.machine); }},
        {"prefetch_gathers", "counts the lines that an iteration of cut loops reads",
         [](Nest& n, Facts& facts) { n = prefetch_gathers(n, facts.far_gathers, facts.machine); }},
        {"prefetch_rows", "needs cut loops, whose lanes lie where data says",
         [](Nest& n, Facts& facts) { n = prefetch_rows(n, facts.large); }},
    });

const PassList<Stmt, Facts> kLoopPasses(
    "loops", ir::same, ir::to_string,
    {
        {"forget_parameters",
         "in front of simplify, which takes loads with parameters for those of constants",
         [](Stmt& s, Facts&) { s = forget_parameters(s); }},
        {"lower_narrow_steps",
         "in front of lower_math, which computes functions of narrow floats in float",
         [](Stmt& s, Facts&) { s = lower_narrow_steps(s); }},
        {"name_common_calls",
         "behind lower_narrow_steps, whose calls count; in front of lower_math, which makes many "
         "operations of every call",
         [](Stmt& s, Facts&) { s = name_common_calls(s); }},
        {"lower_math",
         "in front of simplify, whose rules take floats for finite numbers; strict forms "
         "are left alone",
         [](Stmt& s, Facts&) { s = lower_math(s, narrow_conversions()); }},
        {"vectorize_trigonometry",
         "needs the calls that lower_math leaves, of sin and others, and multiply-adds that round "
         "once: a multiple of pi / 2 is taken off in parts",
         [](Stmt& s, Facts&) { s = vectorize_trigonometry(s); }, fuses},
        {"multiply_by_reciprocals",
         "behind lower_math; in front of make_floats_strict, whose divisions are calls",
         [](Stmt& s, Facts& facts) { s = multiply_by_reciprocals(s, facts.machine); }, fuses},
        {"make_floats_strict",
         "behind all passes of ours that look at arithmetic, in front of all rules for "
         "finite numbers",
         [](Stmt& s, Facts&) { s = make_floats_strict(s); }},
        {"contract_floats", "needs strict sums and products",
         [](Stmt& s, Facts&) { s = contract_floats(s); }, fuses},
        {"hide_nested_truncations",
         "in front of simplify, which walks through them four times for each they are in",
         [](Stmt& s, Facts&) { s = hide_nested_truncations(s); }},
        {"flatten_deep_lets",
         "in front of simplify, which walks through what is inside names several times",
         [](Stmt& s, Facts&) { s = flatten_deep_lets(s); }},
        {"simplify", "Halide's vectoriser expects simple indices",
         [](Stmt& s, Facts&) { s = simplify(s); }},
        {"vectorize_loops", "behind simplify; loops of vectors have constant extents",
         [](Stmt& s, Facts&) { s = vectorize_loops(s, {}); }},
        {"remove_likelies", "what vectorize_loops leaves of its own",
         [](Stmt& s, Facts&) { s = remove_likelies(s); }},
        {"shuffle_lanes", "needs vectors: scans speak of their lanes until here",
         [](Stmt& s, Facts&) { s = shuffle_lanes(s); }},
        {"predicate_guarded_loads", "behind vectorize_loops: computed lane by lane otherwise",
         [](Stmt& s, Facts&) { s = predicate_guarded_loads(s); }},
        {"unroll_loops", "behind vectorize_loops, which would have to repeat itself for every copy",
         [](Stmt& s, Facts&) { s = unroll_loops(s); }},
        {"simplify_unrolled", "constants that unrolling leaves",
         [](Stmt& s, Facts&) { s = simplify(s); }},
        {"load_neighbours",
         "needs vectors and simplified indices, whose distances are known after "
         "unrolling",
         [](Stmt& s, Facts&) { s = load_neighbours(s); }},
        {"gather_lane_by_lane", "behind load_neighbours, which knows better where it can",
         [](Stmt& s, Facts&) { s = gather_lane_by_lane(s); }},
        {"forward_values", "needs unrolled bodies, in which stores and loads of an element meet",
         [](Stmt& s, Facts& facts) { s = forward_values(s, facts.temporaries); }},
        {"expand_checked_indices", "behind unrolling, in front of the naming of common values",
         [](Stmt& s, Facts&) { s = expand_checked_indices(s); }},
        {"separate_lanes",
         "behind unrolling; Halide's rewrite_interleavings, as its own lowering has it",
         [](Stmt& s, Facts&) { s = separate_lanes(s); }},
        {"join_lanes_as_bits",
         "behind separate_lanes, which alone makes such vectors, in front of "
         "simplification",
         [](Stmt& s, Facts&) { s = join_lanes_as_bits(s); }},
        {"name_common", "what is computed twice is computed once, choices apart",
         [](Stmt& s, Facts&) {
           s = around_choices(
               s, [](const Stmt& all) { return common_subexpression_elimination(all); },
               name_common);
         }},
        {"flatten_nested_ramps", "as Halide's own lowering has it, behind unrolling",
         [](Stmt& s, Facts&) { s = flatten_ramps(s); }},
        {"lift_lets",
         "in front of find_intrinsics, which leaves names behind that others' values "
         "begin with",
         [](Stmt& s, Facts&) { s = lift_lets(s); }},
        {"find_intrinsics",
         "needs names for common values: it walks once for every way to an expression",
         [](Stmt& s, Facts&) { s = find_vector_intrinsics(s); }},
        {"hoist_invariant_values", "behind find_intrinsics, as Halide's own lowering has it",
         [](Stmt& s, Facts&) { s = around_choices(s, hoist_loop_invariant_values, name_common); }},
        {"simplify_hoisted", "names that hoisting leaves unused",
         [](Stmt& s, Facts&) { s = simplify(s); }},
        {"recall_parameters", "behind the last simplify: alignments for LLVM",
         [](Stmt& s, Facts&) { s = recall_parameters(s); }},
        {"show_nested_truncations", "behind the last simplify",
         [](Stmt& s, Facts&) { s = show_nested_truncations(s); }},
        {"replace_divisions_by_zero", "behind the last simplify, which finds more of them",
         [](Stmt& s, Facts&) { s = replace_divisions_by_zero(s); }},
        {"compare_halves_as_floats", "in front of define_hidden_zero, which defines what it uses",
         [](Stmt& s, Facts&) { s = compare_halves_as_floats(s); }},
        {"define_switched_off_lanes", "behind the last simplify, which knows no poison",
         [](Stmt& s, Facts& facts) { s = define_switched_off_lanes(s, facts.empty); }},
        {"round_vectors", "behind all that take vectors apart: an instruction has all its lanes",
         [](Stmt& s, Facts&) { s = round_vectors(s); }},
        {"hide_negative_offsets", "last: simplification would undo it",
         [](Stmt& s, Facts&) { s = hide_negative_offsets(s); }},
    });

/// Whether there are marked sums, which have no strict form.
struct Accumulates {
  bool found;
};
bool accumulates(const Accumulates& accumulates) { return accumulates.found; }

// Behind the choice of a target, which decides about floats.
const PassList<Stmt, Accumulates> kFunctionPasses(
    "function", ir::same, ir::to_string,
    {
        {"lower_accumulations", "behind all of Halide's rules, which do not see through the marks",
         [](Stmt& s, Accumulates&) { s = lower_accumulations(s); }, accumulates},
        {"define_hidden_zero",
         "behind lower_accumulations and compare_halves_as_floats, which use it",
         [](Stmt& s, Accumulates&) { s = define_hidden_zero(s); }},
        {"stop_access_analysis", "behind unrolling: LLVM's time is that of the code it gets",
         [](Stmt& s, Accumulates&) { s = stop_access_analysis(s); }},
        {"split_blocks",
         "behind all that makes statements: LLVM's passes take time with the square of a "
         "block",
         [](Stmt& s, Accumulates&) { s = split_blocks(s); }},
        {"define_launch",
         "behind the last simplify; names what checks hand on around all of the body",
         [](Stmt& s, Accumulates&) { s = define_launch(s); }},
    });

Stmt run_passes(Nest nest, BufferFacts& buffers) {
  // Tasks have stacks that are large enough (see base/threads/task).
  static const bool once = (Halide::set_compiler_stack_size(0), true);
  (void)once;
  kNestPasses.run(nest, buffers);
  Stmt stmt = lower(move_large_arrays(nest));
  kLoopPasses.run(stmt, buffers);
  return stmt;
}

}  // namespace

std::string cpu_target() { return host_target().to_string(); }

int cpu_vector_bits() { return host_target().natural_vector_size(Halide::UInt(8)) * 8; }

std::shared_ptr<runtime::Kernel> compile_cpu(const std::string& name, const Nest& nest,
                                             const std::vector<std::string>& arguments,
                                             std::vector<runtime::Workspace>& workspaces,
                                             const BufferFacts& facts, Texts texts,
                                             StageClock& clock, CpuCode* kept) {
  BufferFacts renamed;
  renamed.least_streamed_row = facts.least_streamed_row;
  renamed.machine = facts.machine;
  for (auto names : {&BufferFacts::large, &BufferFacts::far_gathers, &BufferFacts::empty,
                     &BufferFacts::temporaries})
    for (const std::string& tensor : facts.*names) (renamed.*names).insert(buffer_name(tensor));
  for (const auto& [tensor, bytes] : facts.streamed)
    renamed.streamed.emplace(buffer_name(tensor), bytes);
  Stmt body = run_passes(rename_buffers(nest), renamed);
  // What nobody writes is empty, and may be read all the same where data says so.
  const std::set<std::string> used = ir::used_buffers(body);
  auto unused = [&](const runtime::Workspace& workspace) {
    return used.count(buffer_name(workspace.name)) == 0;
  };
  workspaces.erase(std::remove_if(workspaces.begin(), workspaces.end(), unused), workspaces.end());
  Accumulates sums{has_accumulations(body)};
  const Halide::Target target = host_target(!sums.found);
  kFunctionPasses.run(body, sums);
  clock.done("halide passes");
  std::vector<LoweredArgument> parameters;
  auto add = [&](const std::string& parameter, Halide::Type type) {
    parameters.emplace_back(parameter, Halide::Argument::InputScalar, type, 0,
                            Halide::ArgumentEstimates{});
  };
  add("__user_context", Halide::type_of<const void*>());
  for (const std::string& argument : arguments) add(buffer_name(argument), Halide::Handle());
  for (const runtime::Workspace& workspace : workspaces)
    add(buffer_name(workspace.name), Halide::Handle());

  std::vector<LoweredFunc> closures;
  Stmt tasks = lower_parallel_tasks(body, closures, name, target);
  LoweredFunc function(name, parameters, tasks, Halide::LinkageType::ExternalPlusArgv,
                       Halide::NameMangling::C);
  Module module(name, target);
  module.set_any_strict_float(true);
  for (LoweredFunc& closure : closures) module.append(closure);
  module.append(function);
  CpuCode code = make_cpu_code(module, function, body, arguments.size(), workspaces);
  code.streams = !renamed.streams.empty();
  for (const auto& [tensor, bytes] : facts.streamed)
    if (renamed.streams.count(buffer_name(tensor))) code.streamed.push_back(tensor);
  auto kernel = load_cpu_kernel(code);
  if (texts == Texts::All) {
    kernel->texts["stmt"] = ir::to_string(body);
    kernel->texts["assembly"] = assembly(module);
  }
  if (kept) *kept = std::move(code);
  clock.done("llvm");
  return kernel;
}

}  // namespace tc::codegen
