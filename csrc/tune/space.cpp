#include "tune/space.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/notes.h"
#include "base/numbers.h"
#include "plan/apply.h"
#include "plan/options/segments.h"
#include "plan/propose.h"
#include "plan/resolve.h"

namespace tc::tune {
namespace {

using plan::ClusterOptions;
using plan::ClusterPlan;
using plan::Tile;

// Choices, no measurements. Chances that a draw is of another structure than the first candidate's,
// that a change is one of the structure, and that further fields change with the first.
constexpr double kOtherStructure = 0.25, kChangeStructure = 0.08, kAnotherField = 0.4;
// Of a draw's fields, those that are drawn anew.
constexpr double kDrawn = 0.6;
// Structures that are looked at around one.
constexpr size_t kMostNear = 16;

/// What is known of a cluster's Plan without code.
struct Evaluated {
  std::string reason;
  plan::Estimate estimate;
  double tasks = 1, rows = 1, vectors = 1, filled = 1, copies = 0;
  double unrolled() const { return rows * vectors; }
};

/// Whether two lists name a statement in common, where "S0" is its initialisation as well.
bool share_statement(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  auto base = [](const std::string& name) {
    const size_t init = name.rfind("_init");
    return init == std::string::npos ? name : name.substr(0, init);
  };
  return std::any_of(a.begin(), a.end(), [&](const std::string& one) {
    return std::any_of(b.begin(), b.end(),
                       [&](const std::string& other) { return base(one) == base(other); });
  });
}

/// Sets what is set in `from` and open in `to`.
void merge(const ClusterOptions& from, ClusterOptions& to) {
  auto take = [](const auto& given, auto& open) {
    if (given && !open) open = given;
  };
  take(from.parallel, to.parallel);
  plan::for_each_decision(from, to, take);
}

}  // namespace

struct Space::Cluster {
  Part part;
  const plan::Cluster* cluster = nullptr;
  ClusterPlan proposal;
  ClusterSpace space;
  std::map<std::string, Evaluated> known;
};

struct Space::Structure {
  MappingOptions partial;
  std::vector<Cluster> clusters;
};

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, cycles] : plan::Estimate().parts()) all.emplace_back(name);
    for (const char* name : {"cycles on all threads", "structure", "tasks", "rows", "vectors",
                             "filled lanes", "copied reads", "unrolled"})
      all.emplace_back(name);
    return all;
  }();
  return names;
}

Space::Space(Planner planner, std::vector<std::string> callable, MappingOptions constraints,
             const CpuMachine& machine, bool cuda)
    : planner_(std::move(planner)),
      callable_(std::move(callable)),
      constraints_(std::move(constraints)),
      machine_(machine),
      cuda_(cuda) {}

Space::~Space() = default;

MappingOptions Space::with_constraints(MappingOptions partial) const {
  for (const ClusterOptions& given : constraints_.clusters) {
    std::vector<ClusterOptions*> own;
    for (ClusterOptions& cluster : partial.clusters)
      if (share_statement(given.statements, cluster.statements)) own.push_back(&cluster);
    if (own.size() > 1)
      throw CompilationError(concat("the options put ", join(given.statements),
                                    " into one cluster, which are in ", own.size()));
    if (own.empty())
      partial.clusters.push_back(given);
    else
      merge(given, *own[0]);
  }
  return partial;
}

MappingOptions Space::structure_of(const MappingOptions& whole) const {
  MappingOptions partial = constraints_;
  partial.clusters.clear();
  if (!cuda_) {
    partial.match_library_calls.reset();
    partial.library_calls = whole.library_calls.value_or(std::vector<std::string>());
  }
  for (const ClusterOptions& cluster : whole.clusters) {
    ClusterOptions own;
    own.statements = cluster.statements;
    own.outer = cluster.outer.value_or(std::vector<std::string>());
    own.joined = cluster.joined;
    if (plan::computes_in_copies(cluster)) own.copies = cluster.copies;
    partial.clusters.push_back(own);
  }
  return with_constraints(partial);
}

size_t Space::find_structure(const MappingOptions& partial) {
  const std::string key = to_string(partial);
  if (auto found = by_partial_.find(key); found != by_partial_.end()) {
    if (found->second < structures_.size()) return found->second;
    throw CompilationError("the compiler has no Plan for these statements and library calls");
  }
  by_partial_[key] = static_cast<size_t>(-1);  // unless it can be
  auto made = std::make_unique<Structure>();
  made->partial = partial;
  for (const Part& part : planner_(partial)) {
    const MappingOptions own = plan::options_of_segment(constraints_, part.segment);
    for (size_t c = 0; c < part.plan->clusters.size(); ++c) {
      const plan::Cluster& cluster = part.plan->clusters[c];
      const ClusterPlan& proposal = part.plan->groups[c].plan;
      made->clusters.push_back(
          {part,
           &cluster,
           proposal,
           ClusterSpace(cluster, *part.scop, plan::constraints_of(cluster, own), machine_, cuda_,
                        proposal),
           {}});
    }
  }
  // Several of them may come to the same.
  MappingOptions proposed = partial;
  proposed.clusters.clear();
  for (const Cluster& cluster : made->clusters) {
    ClusterOptions options = plan::to_options(cluster.proposal);
    for (std::string& name : options.statements)
      name = plan::name_in_segment(name, cluster.part.segment);
    proposed.clusters.push_back(std::move(options));
  }
  made->partial = structure_of(proposed);
  const auto [same, added] = by_partial_.emplace(to_string(made->partial), structures_.size());
  if (added || same->second >= structures_.size()) {
    same->second = structures_.size();
    structures_.push_back(std::move(made));
  }
  return by_partial_[key] = same->second;
}

std::vector<Genes> Space::proposals(size_t structure) {
  std::vector<Genes> genes;
  for (Cluster& cluster : structures_[structure]->clusters)
    genes.push_back(cluster.space.encode(cluster.proposal));
  return genes;
}

namespace {

Evaluated evaluate(const ClusterPlan& plan, const Part& part, const plan::Cluster& cluster,
                   const CpuMachine& machine, bool cuda) {
  Evaluated result;
  try {
    // Without copies nothing of a tree is refused.
    if (plan.copies.empty()) {
      const Result<plan::Resolved> resolved = plan::resolve(plan, cluster, *part.scop);
      if (!resolved) result.reason = resolved.reason();
    } else {
      const Result<plan::Applied> applied = plan::apply(plan, cluster, *part.scop);
      if (!applied) {
        result.reason = applied.reason();
      } else if (const auto& refused = applied.value().refused; !refused.empty()) {
        const auto& [copy, reason] = *refused.begin();
        result.reason = concat("the plan copies ", plan.copies[copy].read, ": ", reason.text);
      }
    }
    if (!result.reason.empty()) return result;
  } catch (const CompilationError& error) {
    result.reason = error.what();
    return result;
  } catch (const isl::exception& error) {
    throw InternalError(
        __FILE__, __LINE__,
        concat(error.what(), " where the plan is ", plan::to_string(plan::to_options(plan))));
  }
  if (cuda) return result;
  result.estimate = plan::estimate(plan, {cluster, *part.program, *part.layouts, machine});
  const int lanes = plan::count_lanes(cluster, *part.program, machine.vector_bits);
  result.tasks = static_cast<double>(plan::count_tasks(plan, cluster));
  for (const Tile& tile : plan.registers) {
    const bool vector = plan.vector && tile.index == plan.order.back();
    (vector ? result.vectors : result.rows) *=
        static_cast<double>(vector ? divide_up(tile.size, lanes) : tile.size);
  }
  for (int d : cluster.alignment.back()) {
    const ir::Iterator& iterator = cluster.statements.back()->source->domain[d];
    const int64_t extent = std::max<int64_t>(1, extent_of(iterator));
    if (plan.vector && iterator.name == plan.order.back())
      result.filled = static_cast<double>(extent) / static_cast<double>(round_up(extent, lanes));
  }
  result.copies = static_cast<double>(plan.copies.size());
  return result;
}

}  // namespace

size_t Space::make(size_t structure, std::vector<Genes> genes) {
  Structure& own = *structures_[structure];
  Candidate made;
  MappingOptions whole = own.partial;
  whole.clusters.clear();
  plan::Estimate all;
  double cycles = 0, most = -1, unrolled = 0;
  Evaluated largest;
  for (size_t c = 0; c < own.clusters.size(); ++c) {
    Cluster& cluster = own.clusters[c];
    const ClusterPlan plan = cluster.space.decode(genes[c]);
    ClusterOptions options = plan::to_options(plan);
    const std::string text = plan::to_string(options);
    auto known = cluster.known.find(text);
    if (known == cluster.known.end())
      known = cluster.known
                  .emplace(text, evaluate(plan, cluster.part, *cluster.cluster, machine_, cuda_))
                  .first;
    const Evaluated& evaluated = known->second;
    if (made.reason.empty()) made.reason = evaluated.reason;
    all += evaluated.estimate;
    unrolled += evaluated.unrolled();
    const double total = evaluated.estimate.total();
    // Threads that are done wait for the last.
    cycles += total / evaluated.tasks * std::ceil(evaluated.tasks / std::max(1, machine_.threads));
    if (total > most) {
      most = total;
      largest = evaluated;
    }
    for (std::string& name : options.statements)
      name = plan::name_in_segment(name, cluster.part.segment);
    whole.clusters.push_back(std::move(options));
  }
  made.text = to_string(whole);
  const auto [known, added] = by_text_.emplace(made.text, candidates_.size());
  if (!added) return known->second;
  made.structure = structure;
  made.genes = std::move(genes);
  for (const auto& [name, value] : all.parts()) made.features.push_back(value);
  for (double value : {cycles, static_cast<double>(structure), largest.tasks, largest.rows,
                       largest.vectors, largest.filled, largest.copies, unrolled})
    made.features.push_back(value);
  candidates_.push_back(std::move(made));
  return candidates_.size() - 1;
}

size_t Space::add(const MappingOptions& whole) {
  const size_t structure = find_structure(structure_of(whole));
  std::vector<Genes> genes = proposals(structure);
  std::vector<Cluster>& clusters = structures_[structure]->clusters;
  for (size_t c = 0; c < clusters.size(); ++c) {
    const MappingOptions own = plan::options_of_segment(whole, clusters[c].part.segment);
    const ClusterOptions* given = plan::options_of(*clusters[c].cluster, own);
    const auto plan = given ? plan::complete_plan(*given) : std::nullopt;
    if (plan) genes[c] = clusters[c].space.encode(*plan);
  }
  return make(structure, std::move(genes));
}

std::vector<size_t> Space::near_structures(size_t structure) {
  if (auto found = near_.find(structure); found != near_.end()) return found->second;
  std::vector<MappingOptions> all;
  // A copy, since structures are added.
  const MappingOptions partial = structures_[structure]->partial;
  // Who decides about loops wants them.
  const bool libraries_open =
      !cuda_ && !constraints_.library_calls &&
      constraints_.match_library_calls.value_or(!constraints_.decides_loops());
  if (libraries_open) {
    const std::vector<std::string> taken = *partial.library_calls;
    auto add = [&](std::vector<std::string> calls) {
      MappingOptions other = constraints_;
      other.match_library_calls.reset();
      other.library_calls = std::move(calls);
      all.push_back(std::move(other));
    };
    for (const std::string& statement : callable_) {
      std::vector<std::string> calls;
      for (const std::string& other : callable_) {
        const bool is_taken = std::find(taken.begin(), taken.end(), other) != taken.end();
        if (is_taken != (other == statement)) calls.push_back(other);
      }
      add(calls);
    }
    if (callable_.size() > 1) {
      add({});
      add(callable_);
    }
  }
  auto without_copies = [](ClusterOptions cluster) {
    ClusterOptions open;
    open.statements = std::move(cluster.statements);
    open.outer.emplace();
    return open;
  };
  auto add = [&](std::vector<ClusterOptions> clusters) {
    MappingOptions other = partial;
    other.clusters = std::move(clusters);
    all.push_back(std::move(other));
  };
  const std::vector<ClusterOptions>& clusters = partial.clusters;
  for (size_t c = 0; c + 1 < clusters.size() && !cuda_; ++c) {
    std::vector<ClusterOptions> joint = clusters;
    joint[c] = without_copies(joint[c]);
    joint[c].statements.insert(joint[c].statements.end(), joint[c + 1].statements.begin(),
                               joint[c + 1].statements.end());
    joint.erase(joint.begin() + static_cast<long>(c) + 1);
    add(joint);
  }
  for (size_t c = 0; c < clusters.size(); ++c)
    for (size_t s = 1; s < clusters[c].statements.size(); ++s) {
      const std::vector<std::string>& names = clusters[c].statements;
      if (names[s - 1] == names[s] + "_init") continue;
      std::vector<ClusterOptions> split = clusters;
      ClusterOptions first = without_copies(clusters[c]), second = first;
      first.statements.assign(names.begin(), names.begin() + static_cast<long>(s));
      second.statements.assign(names.begin() + static_cast<long>(s), names.end());
      split[c] = first;
      split.insert(split.begin() + static_cast<long>(c) + 1, second);
      add(split);
    }
  if (std::any_of(clusters.begin(), clusters.end(),
                  [](const ClusterOptions& own) { return own.outer && !own.outer->empty(); })) {
    std::vector<ClusterOptions> apart;
    for (const ClusterOptions& cluster : clusters) apart.push_back(without_copies(cluster));
    add(apart);
  }
  std::vector<size_t> found;
  for (const MappingOptions& other : all) {
    if (found.size() >= kMostNear) break;
    try {
      found.push_back(find_structure(with_constraints(other)));
    } catch (const CompilationError&) {
      // No such structure.
    }
  }
  return near_[structure] = found;
}

std::vector<size_t> Space::add_forms(size_t structure) {
  std::vector<size_t> added;
  for (size_t c = 0; c < structures_[structure]->clusters.size() && !cuda_; ++c) {
    Cluster& cluster = structures_[structure]->clusters[c];
    const std::vector<std::string> names = plan::shared_names(*cluster.cluster);
    std::vector<ClusterOptions> forms(3);
    forms[0].vector = false;
    forms[1].registers.emplace();
    forms[2].copies.emplace();
    for (const std::string& last : names) {
      ClusterOptions order;
      order.order = names;
      std::stable_partition(order.order->begin(), order.order->end(),
                            [&](const std::string& name) { return name != last; });
      order.vector = true;
      ClusterOptions plain = order;
      plain.registers.emplace();
      forms.push_back(order);
      forms.push_back(plain);
    }
    for (ClusterOptions& form : forms) {
      form.statements = cluster.proposal.statements;
      MappingOptions options = plan::options_of_segment(constraints_, cluster.part.segment);
      if (const ClusterOptions* given = plan::options_of(*cluster.cluster, options)) {
        ClusterOptions own = *given;
        merge(form, own);
        form = own;
      }
      options.clusters = {form};
      try {
        const ClusterPlan plan = plan::propose_cpu(*cluster.cluster, *cluster.part.scop,
                                                   *cluster.part.layouts, options, machine_)
                                     .plan;
        std::vector<Genes> genes = proposals(structure);
        genes[c] = cluster.space.encode(plan);
        added.push_back(make(structure, std::move(genes)));
      } catch (const CompilationError&) {
        // The cluster has no such form.
      }
    }
  }
  return added;
}

std::vector<size_t> Space::starts() {
  if (starts_ || candidates_.empty()) return starts_.value_or(std::vector<size_t>());
  starts_.emplace();
  const size_t first = candidates_[0].structure;
  std::vector<size_t> found = {make(first, proposals(first))};
  for (size_t other : near_structures(first)) found.push_back(make(other, proposals(other)));
  for (size_t form : add_forms(first)) found.push_back(form);
  std::set<size_t> seen = {0};
  for (size_t candidate : found)
    if (candidates_[candidate].reason.empty() && seen.insert(candidate).second)
      starts_->push_back(candidate);
  return *starts_;
}

size_t Space::draw(uint64_t seed) {
  Random random(seed);
  std::vector<size_t> from = starts();
  from.push_back(0);
  const size_t first = candidates_[0].structure;
  size_t chosen = random.pick(from);
  if (candidates_[chosen].structure != first && !random.chance(kOtherStructure)) chosen = 0;
  std::vector<Genes> genes = candidates_[chosen].genes;
  const size_t structure = candidates_[chosen].structure;
  for (size_t c = 0; c < genes.size(); ++c)
    structures_[structure]->clusters[c].space.draw(genes[c], kDrawn, random);
  return make(structure, std::move(genes));
}

size_t Space::mutate(size_t candidate, uint64_t seed) {
  Random random(seed);
  size_t structure = candidates_.at(candidate).structure;
  std::vector<Genes> genes = candidates_[candidate].genes;
  if (random.chance(kChangeStructure)) {
    const std::vector<size_t> near = near_structures(structure);
    if (!near.empty()) {
      const size_t other = random.pick(near);
      std::vector<Genes> moved = proposals(other);
      // Clusters that both have keep their Plans.
      for (size_t a = 0; a < moved.size(); ++a)
        for (size_t b = 0; b < genes.size(); ++b) {
          const Cluster& before = structures_[structure]->clusters[b];
          Cluster& after = structures_[other]->clusters[a];
          if (before.proposal.statements == after.proposal.statements &&
              before.part.segment == after.part.segment)
            moved[a] = after.space.encode(before.space.decode(genes[b]));
        }
      return make(other, std::move(moved));
    }
  }
  if (genes.empty()) return candidate;
  do {
    const size_t c = random.below(genes.size());
    structures_[structure]->clusters[c].space.mutate(genes[c], random);
  } while (random.chance(kAnotherField));
  return make(structure, std::move(genes));
}

size_t Space::cross(const std::vector<size_t>& parents, uint64_t seed) {
  Random random(seed);
  const size_t first = parents.at(0);
  const size_t structure = candidates_.at(first).structure;
  std::vector<Genes> genes = candidates_[first].genes;
  std::vector<size_t> alike;
  for (size_t parent : parents)
    if (candidates_.at(parent).structure == structure) alike.push_back(parent);
  for (size_t c = 0; c < genes.size(); ++c)
    for (size_t f = 0; f < genes[c].size(); ++f)
      genes[c][f] = candidates_[random.pick(alike)].genes[c][f];
  return make(structure, std::move(genes));
}

std::vector<size_t> Space::neighbours(size_t candidate) {
  const size_t structure = candidates_.at(candidate).structure;
  const std::vector<Genes> genes = candidates_[candidate].genes;
  std::vector<size_t> found;
  for (size_t c = 0; c < genes.size(); ++c)
    for (const Genes& near : structures_[structure]->clusters[c].space.neighbours(genes[c])) {
      std::vector<Genes> all = genes;
      all[c] = near;
      const size_t made = make(structure, std::move(all));
      if (made != candidate && std::find(found.begin(), found.end(), made) == found.end())
        found.push_back(made);
    }
  return found;
}

}  // namespace tc::tune
