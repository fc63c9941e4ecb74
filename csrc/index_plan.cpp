#include "index_plan.h"

#include <algorithm>

#include "machine/limits.h"
#include "program_passes.h"

namespace tc {
namespace {

int64_t points(const std::vector<ir::Iterator>& domain) {
  int64_t count = 1;
  for (const ir::Iterator& it : domain) count *= std::max<int64_t>(1, ir::extent_of(it));
  return count;
}

bool is_cheap(const ir::Program& program, const ir::IndexCheck& check) {
  const int64_t indices = points(check.domain);
  return indices <= machine::kFewIndices ||
         indices * machine::kIndexWork <= points(program.statements[check.access.statement].domain);
}

/// Whether elements that are within the one are within the other.
bool implies(const ir::ElementRange& one, const ir::ElementRange& other) {
  if (one.tensor != other.tensor || one.least < other.least || one.most > other.most) return false;
  for (size_t d = 0; d < one.first.size(); ++d)
    if (other.first[d] < one.first[d] ||
        other.first[d] + other.count[d] > one.first[d] + one.count[d])
      return false;
  return true;
}

bool is_implied(const std::vector<ir::EntryCheck>& by, const ir::ElementRange& range) {
  return std::any_of(by.begin(), by.end(),
                     [&](const ir::EntryCheck& entry) { return implies(*entry.range, range); });
}

/// The same part of the tensor, in memory.
runtime::ElementRange in_memory(const ir::ElementRange& range, const ir::Tensor& tensor,
                                const Layout& layout) {
  runtime::ElementRange result;
  result.bits = tensor.type.bits();
  result.is_unsigned = tensor.type.is_uint();
  for (size_t d = 0; d < range.first.size(); ++d)
    result.offset += range.first[d] * layout.strides[d];
  result.sizes = range.count;
  result.strides = layout.strides;
  result.least = range.least;
  result.most = range.most;
  runtime::join_dimensions(result);
  return result;
}

/// A kernel for a program whose parameters are arguments of the whole, and whose results are new.
runtime::PartialKernel make_partial(const ir::Program& part,
                                    const std::vector<std::string>& arguments, Layouts layouts,
                                    const CompileOwn& own) {
  runtime::PartialKernel result;
  for (const ir::Parameter& parameter : part.parameters)
    result.arguments.push_back(static_cast<size_t>(
        std::find(arguments.begin(), arguments.end(), parameter.name) - arguments.begin()));
  result.results = part.outputs.size();
  for (const std::string& output : part.outputs) layouts[output] = Layout{};
  result.kernel = own(part, layouts);
  return result;
}

}  // namespace

IndexPlan plan_index_checks(const ir::Program& program, bool cuda) {
  IndexPlan plan;
  plan.checks = ir::list_index_checks(program);
  std::vector<size_t> costly;
  for (size_t c = 0; c < plan.checks.size(); ++c) {
    // Where there is no element at all, there is none to read in place of a bad one.
    if (cuda || (plan.checks[c].size != 0 && !is_cheap(program, plan.checks[c]))) {
      costly.push_back(c);
      continue;
    }
    const std::optional<ir::EntryCheck> entry = ir::check_at_entry(program, plan.checks, c);
    if (!entry)
      plan.in_loops.insert(c);
    else if (entry->range)
      plan.ranges.push_back(*entry);
    else
      plan.compiled.push_back(*entry);
  }
  // These need no pass of their own where one over the same elements is made anyway.
  for (size_t c : costly) {
    std::optional<ir::EntryCheck> entry;
    if (!plan.ranges.empty()) entry = ir::check_at_entry(program, plan.checks, c);
    if (entry && entry->range && is_implied(plan.ranges, *entry->range))
      plan.ranges.push_back(*entry);
    else
      plan.in_loops.insert(c);
  }
  if (plan.compiled.size() > machine::kCompiledChecks) {
    auto moved = std::stable_partition(
        plan.compiled.begin(), plan.compiled.end(),
        [&](const auto& entry) { return plan.checks[entry.check].size == 0; });
    for (auto entry = moved; entry != plan.compiled.end(); ++entry)
      plan.in_loops.insert(entry->check);
    plan.compiled.erase(moved, plan.compiled.end());
  }
  return plan;
}

std::shared_ptr<runtime::Kernel> with_index_checks(std::shared_ptr<const runtime::Kernel> kernel,
                                                   const ir::Program& program,
                                                   const Layouts& layouts, IndexPlan plan,
                                                   const CompileOwn& own) {
  const std::vector<std::string> arguments = argument_names(program);
  runtime::IndexGuards guards;
  guards.name = program.name;
  std::vector<ir::EntryCheck> looked_at;
  for (const ir::EntryCheck& entry : plan.ranges) {
    if (is_implied(looked_at, *entry.range)) continue;
    looked_at.push_back(entry);
    const std::string& tensor = entry.range->tensor;
    const size_t argument = static_cast<size_t>(
        std::find(arguments.begin(), arguments.end(), tensor) - arguments.begin());
    guards.ranges.push_back({entry.check, argument,
                             in_memory(*entry.range, program.tensor(tensor), layouts.at(tensor))});
  }
  for (const ir::EntryCheck& entry : plan.compiled) guards.detected.push_back(entry.check);
  if (!plan.compiled.empty())
    guards.detect = make_partial(ir::detect_bad_indices(program, plan.checks, plan.compiled),
                                 arguments, layouts, own);
  ir::LocateProgram locate = ir::locate_bad_indices(program, plan.checks);
  guards.located = std::move(locate.checks);
  guards.make_locate = [program = std::move(locate.program), arguments, layouts, own] {
    return make_partial(program, arguments, layouts, own);
  };
  guards.checks = std::move(plan.checks);
  return runtime::make_checked(std::move(kernel), std::move(guards));
}

Notes describe(const IndexPlan& plan) {
  std::vector<std::string> before, inside;
  auto add = [&](std::vector<std::string>& list, size_t check) {
    const std::string& text = plan.checks[check].text;
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  for (const ir::EntryCheck& entry : plan.ranges) add(before, entry.check);
  for (const ir::EntryCheck& entry : plan.compiled) add(before, entry.check);
  for (size_t check : plan.in_loops) add(inside, check);
  Notes notes;
  if (!before.empty()) notes.push_back({"indices", "looked at before the run: " + join(before)});
  if (!inside.empty()) notes.push_back({"indices", "looked at by the loops: " + join(inside)});
  return notes;
}

}  // namespace tc
