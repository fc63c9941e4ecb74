#include "codegen/cpu_jit.h"

#include <algorithm>

#include "base/task.h"
#include "base/text_stream.h"
#include "codegen/accumulations.h"
#include "codegen/changing_buffers.h"
#include "codegen/checked_indices.h"
#include "codegen/copies.h"
#include "codegen/cpu_kernel.h"
#include "codegen/cpu_math.h"
#include "codegen/forward_values.h"
#include "codegen/guarded_loads.h"
#include "codegen/half_comparisons.h"
#include "codegen/hidden_zero.h"
#include "codegen/host_target.h"
#include "codegen/invariant_divisors.h"
#include "codegen/joined_lanes.h"
#include "codegen/lift_lets.h"
#include "codegen/near_gathers.h"
#include "codegen/nested_truncations.h"
#include "codegen/prefetch_gathers.h"
#include "codegen/prefetch_panels.h"
#include "codegen/prefetch_parts.h"
#include "codegen/prefetch_passes.h"
#include "codegen/prefetch_rows.h"
#include "codegen/register_tiles.h"
#include "codegen/rename_buffers.h"
#include "codegen/split_blocks.h"
#include "codegen/stream_rows.h"
#include "codegen/strict_floats.h"
#include "codegen/vector_loops.h"
#include "codegen/vector_reductions.h"
#include "codegen/vector_scans.h"
#include "codegen/vector_trigonometry.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using Halide::Module;
using ir::Expr;

using ir::Stmt;

/// `strict`: LLVM may not take any float for a number.
Halide::Target host_target(bool strict = true) {
  static const Halide::Target target =
      restrict_target(Halide::get_host_target(), usable_instruction_sets())
          .with_feature(Halide::Target::JIT)
          .with_feature(Halide::Target::NoAsserts)
          .with_feature(Halide::Target::NoBoundsQuery)
          .with_feature(Halide::Target::NoRuntime);
  return strict ? target.with_feature(Halide::Target::StrictFloat) : target;
}

bool fuses_multiply_add() {
  const Halide::Target target = host_target();
  return target.arch == Halide::Target::ARM || target.has_feature(Halide::Target::FMA);
}

Stmt lower(Stmt stmt, const BufferFacts& buffers) {
  // Tasks have stacks that are large enough (see base/task).
  static const bool once = (Halide::set_compiler_stack_size(0), true);
  (void)once;
  stmt = ir::collapse_loops(stmt, ForType::Parallel);
  stmt = expand_register_tiles(stmt, cpu_vector_bits(), buffers.large, buffers.temporaries);
  stmt = prefetch_panels(stmt, buffers.large);
  stmt = prefetch_parts(stmt, buffers.large);
  stmt = vectorize_copies(stmt, cpu_vector_bits());
  stmt = vectorize_scans(stmt, cpu_vector_bits());
  stmt = vectorize_reductions(stmt, cpu_vector_bits());
  stmt = stream_rows(stmt, buffers.streamed, buffers.least_streamed_row);
  stmt = cut_vector_loops(stmt, cpu_vector_bits());
  stmt = prefetch_passes(stmt, buffers.large);
  stmt = forget_parameters(stmt);
  Task::leave_if_cancelled();
  // Before simplify, whose rules take floats for finite numbers; strict forms are left alone.
  stmt = vectorize_trigonometry(lower_math(stmt));
  if (fuses_multiply_add()) stmt = multiply_by_reciprocals(stmt);
  stmt = make_floats_strict(stmt);
  if (fuses_multiply_add()) stmt = contract_floats(stmt);
  stmt = simplify(flatten_deep_lets(hide_nested_truncations(stmt)));
  Task::leave_if_cancelled();
  stmt = shuffle_lanes(remove_likelies(vectorize_loops(stmt, {})));
  stmt = predicate_guarded_loads(join_lanes_as_bits(stmt));
  stmt = unroll_loops(stmt);
  stmt = load_neighbours(simplify(stmt));
  stmt = forward_values(stmt, buffers.temporaries);
  stmt = prefetch_gathers(stmt, buffers.large);
  stmt = prefetch_rows(stmt, buffers.large);
  stmt = expand_checked_indices(stmt);
  stmt = join_lanes_as_bits(separate_lanes(stmt));
  Task::leave_if_cancelled();
  // All three of Halide's passes name common subexpressions.
  ExprPass name_common = [](const Expr& e) { return common_subexpression_elimination(e); };
  ExprPass find = [](const Expr& e) { return find_intrinsics(e); };
  stmt = around_choices(
      stmt, [](const Stmt& s) { return common_subexpression_elimination(s); }, name_common);
  stmt = lift_lets(flatten_nested_ramps(stmt));
  stmt = around_choices(
      stmt, [](const Stmt& s) { return find_intrinsics(s); }, find);
  stmt = around_choices(stmt, hoist_loop_invariant_values, name_common);
  stmt = show_nested_truncations(recall_parameters(simplify(stmt)));
  stmt = replace_divisions_by_zero(stmt);
  stmt = compare_halves_as_floats(stmt);
  stmt = hint_prefetches(stmt);
  return hide_negative_offsets(define_switched_off_lanes(stmt, buffers.empty));
}

}  // namespace

int cpu_vector_bits() { return host_target().natural_vector_size(Halide::UInt(8)) * 8; }

std::shared_ptr<runtime::Kernel> compile_cpu(const std::string& name, const Stmt& stmt,
                                             const std::vector<std::string>& arguments,
                                             std::vector<runtime::Workspace>& workspaces,
                                             const BufferFacts& facts, Texts texts,
                                             StageClock& clock) {
  BufferFacts renamed;
  renamed.least_streamed_row = facts.least_streamed_row;
  for (const std::string& tensor : facts.large) renamed.large.insert(buffer_name(tensor));
  for (const std::string& tensor : facts.empty) renamed.empty.insert(buffer_name(tensor));
  for (const std::string& tensor : facts.temporaries)
    renamed.temporaries.insert(buffer_name(tensor));
  for (const auto& [tensor, bytes] : facts.streamed)
    renamed.streamed.emplace(buffer_name(tensor), bytes);
  Stmt body = lower(rename_buffers(stmt), renamed);
  const std::set<std::string> stored = ir::stored_buffers(body);
  auto unused = [&](const runtime::Workspace& workspace) {
    return stored.count(buffer_name(workspace.name)) == 0;
  };
  workspaces.erase(std::remove_if(workspaces.begin(), workspaces.end(), unused), workspaces.end());
  const Halide::Target target = host_target(!has_accumulations(body));
  if (!target.has_feature(Halide::Target::StrictFloat)) body = lower_accumulations(body);
  body = define_launch(split_blocks(define_hidden_zero(body)));
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
  const std::set<std::string> streamed = streamed_buffers(body);
  auto kernel =
      make_cpu_kernel(module, function, body, arguments.size(), workspaces, !streamed.empty());
  if (texts == Texts::All) {
    TextStream text;
    text << body;
    kernel->texts["stmt"] = text.str();
    kernel->texts["assembly"] = assembly(module);
  }
  for (const auto& [tensor, bytes] : facts.streamed)
    if (streamed.count(buffer_name(tensor))) kernel->streamed.push_back(tensor);
  clock.done("llvm");
  return kernel;
}

}  // namespace tc::codegen
