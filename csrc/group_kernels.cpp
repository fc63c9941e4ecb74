#include "group_kernels.h"

#include <list>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/threads/leaf_mutex.h"
#include "ir/accesses.h"
#include "plan/options/cluster_options.h"
#include "runtime/sequence.h"

namespace tc {
namespace {

// Of the groups and nests of a search, those that its candidates share.
constexpr size_t kMostKept = 512;

/// Kernels by all that decides them, those that were used last.
class Kept {
 public:
  /// `loops` is what the key says of loops, where it says that.
  std::shared_ptr<const runtime::Kernel> find(const std::string& key,
                                              const nest::Nest& loops = nullptr) {
    const LeafLock lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    const Entry& entry = *found->second;
    if (loops && !nest::same(entry.loops, loops)) return nullptr;
    all_.splice(all_.begin(), all_, found->second);
    return all_.front().kernel;
  }
  void add(const std::string& key, std::shared_ptr<const runtime::Kernel> kernel,
           nest::Nest loops = nullptr) {
    const LeafLock lock(mutex_);
    if (places_.count(key)) return;
    all_.push_front({key, std::move(kernel), std::move(loops)});
    places_[key] = all_.begin();
    if (all_.size() <= kMostKept) return;
    places_.erase(all_.back().key);
    all_.pop_back();
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const runtime::Kernel> kernel;
    nest::Nest loops;
  };
  using Entries = std::list<Entry>;
  LeafMutex mutex_;
  Entries all_;
  std::map<std::string, Entries::iterator> places_;
};

/// Never destroyed: compilations may go on while the process ends.
Kept& kept = *new Kept;

/// Tensors that the statements of a group touch, and those that its copies compute.
std::set<std::string> tensors_of(const Scheduled& scheduled, size_t group) {
  std::set<std::string> names;
  auto add = [&](const poly::ScopStatement& statement) {
    for (const ir::MemoryAccess& access : accesses(scheduled.program, *statement.source))
      names.insert(access.tensor);
  };
  for (const auto* statement : scheduled.plan.clusters[group].statements) add(*statement);
  for (const plan::CopyPlan& copy : scheduled.plan.groups[group].plan.copies)
    if (!copy.computes.empty()) add(scheduled.scop.statement(copy.computes));
  return names;
}

/// Groups that share loops go together.
std::vector<std::vector<size_t>> units_of(const Scheduled& scheduled) {
  std::vector<std::vector<size_t>> units;
  for (size_t g = 0; g < scheduled.plan.groups.size(); ++g) {
    if (!scheduled.plan.groups[g].mapped.joined) units.emplace_back();
    units.back().push_back(g);
  }
  return units;
}

/// What is computed, and how the tensors lie.
std::string text_of(const ir::Program& program, const Layouts& layouts) {
  std::string text = ir::to_string(program);
  for (const auto& [name, layout] : layouts) {
    text += "\n" + name;
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      text += concat(" ", layout.sizes[d], "@", layout.strides[d]);
  }
  return text;
}

}  // namespace

std::shared_ptr<runtime::Kernel> compile_once(
    const nest::Nest& loops, const ir::Program& program, const Layouts& layouts,
    const std::vector<std::string>& arguments, const std::string& made_for,
    const std::function<std::shared_ptr<runtime::Kernel>()>& compile) {
  std::string key = concat(made_for, "\n", text_of(program, layouts));
  for (const std::string& name : arguments) key += "\n" + name;
  key += "\n" + nest::to_string(loops);
  runtime::Step step;
  step.kernel = kept.find(key, loops);
  if (!step.kernel) {
    step.kernel = compile();
    kept.add(key, step.kernel, loops);
  }
  step.arguments.resize(arguments.size());
  std::iota(step.arguments.begin(), step.arguments.end(), size_t{0});
  // Candidates have texts of their own.
  return runtime::make_sequence({std::move(step)}, arguments.size(), {}, nullptr);
}

std::shared_ptr<runtime::Kernel> compile_group_by_group(const Scheduled& scheduled,
                                                        const std::vector<std::string>& arguments,
                                                        const CpuMachine& machine,
                                                        const std::string& made_for,
                                                        const CompileGroups& compile) {
  const std::vector<std::vector<size_t>> units = units_of(scheduled);
  if (units.size() < 2 || scheduled.plan.clusters.size() != scheduled.plan.groups.size())
    return nullptr;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : scheduled.program.tensors)
    bytes += dense_bytes(tensor, scheduled.layouts.at(name));
  if (bytes >= machine.last_cache_bytes / 4) return nullptr;
  // Temporaries that pass from one to another are arguments of both.
  std::map<std::string, size_t> users;
  for (const std::vector<size_t>& unit : units) {
    std::set<std::string> names;
    for (size_t group : unit) names.merge(tensors_of(scheduled, group));
    for (const std::string& name : names) ++users[name];
  }
  ir::Program program = scheduled.program;
  std::vector<std::string> all = arguments;
  std::vector<runtime::Workspace> workspaces;
  for (auto& [name, tensor] : program.tensors) {
    if (tensor.role != ir::TensorRole::Temporary || users[name] < 2) continue;
    tensor.role = ir::TensorRole::Output;
    all.push_back(name);
    workspaces.push_back({name, dense_bytes(tensor, scheduled.layouts.at(name))});
  }
  const std::string common = concat(made_for, "\n", text_of(program, scheduled.layouts));
  std::vector<size_t> places(all.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::vector<runtime::Step> steps;
  for (const std::vector<size_t>& unit : units) {
    std::string key = common;
    for (size_t group : unit)
      key += "\n" + plan::to_string(plan::to_options(scheduled.plan.groups[group].plan));
    runtime::Step step;
    step.arguments = places;
    step.kernel = kept.find(key);
    if (!step.kernel) {
      step.kernel = compile(unit, program, all);
      kept.add(key, step.kernel);
    }
    steps.push_back(std::move(step));
  }
  return runtime::make_sequence(std::move(steps), arguments.size(), std::move(workspaces), nullptr);
}

}  // namespace tc
