// What a user, a tuner or a file decides about a cluster: a part of its Plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/python_calls.h"
#include "plan/plan.h"

namespace tc::plan {

/// A partial ClusterPlan: what is set holds, the rest stays the compiler's to choose.
struct ClusterOptions {
  std::vector<std::string> statements;  ///< that are in this cluster: "S0", with its initialisation
  std::optional<std::vector<std::string>> outer;  ///< see ClusterPlan
  std::optional<bool> joined;
  std::optional<std::vector<std::string>> order;
  std::optional<std::vector<Tile>> tasks;
  std::optional<bool> parallel;
  std::optional<std::vector<Tile>> reductions;
  std::optional<std::vector<Tile>> registers;
  std::optional<std::string> instruction;  ///< a Plan says it only where there is one
  std::optional<Points> points;
  std::optional<bool> vector;
  std::optional<std::vector<NestPlan>> nests;
  std::optional<std::vector<CopyPlan>> copies;
};

/// Calls `visit` with what two of ClusterOptions and ClusterPlans hold for each decision, but for
/// whether tasks are parallel, which these say in forms of their own.
template <class A, class B, class Visit>
void for_each_decision(A& a, B& b, const Visit& visit) {
  visit(a.outer, b.outer);
  visit(a.joined, b.joined);
  visit(a.order, b.order);
  visit(a.tasks, b.tasks);
  visit(a.reductions, b.reductions);
  visit(a.registers, b.registers);
  visit(a.instruction, b.instruction);
  visit(a.points, b.points);
  visit(a.vector, b.vector);
  visit(a.nests, b.nests);
  visit(a.copies, b.copies);
}

/// All of a Plan as options.
ClusterOptions to_options(const ClusterPlan& plan);

/// Whether a copy is to compute the value of a statement.
bool computes_in_copies(const ClusterOptions& options);

/// The Plan where everything is set.
std::optional<ClusterPlan> complete_plan(const ClusterOptions& options);

/// Whether clusters have an option of this name.
bool is_cluster_option(const std::string& name);
/// Whether a call sets an option of a cluster; sets it if so. A bad value is a UsageError that says
/// what is allowed.
bool set_option(ClusterOptions& options, const PythonCall& call);

/// The one argument of a call that takes True or False; 1 and 0 are taken as well.
bool flag_argument(const PythonCall& call, const std::string& allowed = "True or False");

/// UsageError: MappingOptions.<the call>: expected what is allowed.
[[noreturn]] void refuse(const PythonCall& call, const std::string& allowed);

/// A value that names a statement or a loop. UsageError for others: one with a backslash or a
/// line's end would print as what is no Python.
std::string checked_name(const PythonValue& value, const PythonCall& call,
                         const std::string& allowed);

/// .cluster("S0").tile("task", n=64, m=48).parallel(True): calls that set what is set.
std::string to_string(const ClusterOptions& options);

}  // namespace tc::plan
