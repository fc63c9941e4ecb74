#include "tune/cluster_space.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/numbers.h"
#include "ir/loops.h"
#include "plan/forms/scatters.h"
#include "plan/options/cluster_options.h"
#include "plan/refine_tasks.h"

namespace tc::tune {
namespace {

using plan::ClusterPlan;
using plan::CopyPlan;
using plan::NestPlan;
using plan::Points;
using plan::Tile;

// Points of a register tile along a loop that is no vector.
constexpr int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24};
// The same along the vector, in vectors.
constexpr int64_t kVectors[] = {1, 2, 3, 4, 6, 8};
// Orders of so few loops or dimensions are all known at once.
constexpr size_t kFewLoops = 4, kFewDimensions = 3;
// Chances, no measurements: that a size steps to a neighbour, by one or by two; that a draw has a
// vector, tasks on threads, no tile of a reduction, a copy.
constexpr double kStep = 0.7, kShortStep = 0.7;
constexpr double kVector = 0.9, kParallel = 0.8, kWhole = 0.7, kCopy = 0.5;

template <class T>
std::vector<std::vector<T>> permutations(std::vector<T> items) {
  std::vector<std::vector<T>> all;
  std::sort(items.begin(), items.end());
  do all.push_back(items);
  while (std::next_permutation(items.begin(), items.end()));
  return all;
}

template <class T>
int64_t known(std::vector<T>& all, const T& one) {
  auto found = std::find(all.begin(), all.end(), one);
  if (found == all.end()) found = all.insert(all.end(), one);
  return found - all.begin();
}

int64_t size_of(const std::vector<Tile>& tiles, const std::string& index, int64_t missing) {
  const Tile* tile = plan::find_tile(tiles, index);
  return tile ? tile->size : missing;
}

std::string nests_text(const std::vector<NestPlan>& nests) {
  plan::ClusterOptions options;
  options.nests = nests;
  return plan::to_string(options);
}

}  // namespace

ClusterSpace::ClusterSpace(const plan::Cluster& cluster, const plan::Scop& scop,
                           const plan::Constraints& constraints, const CpuMachine& machine,
                           bool cuda, const ClusterPlan& start)
    : cluster_(cluster),
      scop_(scop),
      cuda_(cuda),
      lanes_(plan::count_lanes(cluster, *scop.program, machine.vector_bits)),
      constraints_(constraints),
      start_(start) {
  for (int d : cluster.alignment.back()) {
    const ir::Iterator& iterator = cluster.statements.back()->source->domain[d];
    loops_.push_back({iterator.name, std::max<int64_t>(1, extent_of(iterator))});
  }
  const plan::ClusterOptions& given = constraints_.cluster;
  const bool single = loops_.size() < 2, inside_fixed = cuda || !start.instruction.empty();
  if (loops_.size() <= kFewLoops && !loops_.empty())
    orders_ = permutations(plan::shared_names(cluster));
  known_nests({});
  add(Kind::Order, 0, single || inside_fixed || given.order.has_value());
  add(Kind::TaskOrder, 0, single);
  add(Kind::Parallel, 0,
      cuda || loops_.empty() || !constraints.parallel || given.parallel.has_value());
  add(Kind::Points, 0, inside_fixed || loops_.empty() || given.points.has_value());
  add(Kind::Vector, 0,
      inside_fixed || loops_.empty() || !constraints.allows_shared_vector() ||
          given.vector.has_value());
  add(Kind::Nests, 0, inside_fixed || plan::is_scatter(cluster) || given.nests.has_value());
  for (size_t m = 0; m < loops_.size(); ++m)
    add(Kind::Task, m, loops_[m].extent == 1 || constraints.tasks[m] > 0);
  for (size_t m = 0; m < loops_.size(); ++m)
    add(Kind::Register, m, inside_fixed || loops_[m].extent == 1 || given.registers.has_value());
  if (!inside_fixed) find_reductions();
  if (!cuda) find_copies();
  encode(start);
}

void ClusterSpace::add(Kind kind, size_t number, bool fixed) {
  fields_.push_back({kind, number, fixed});
}

void ClusterSpace::find_reductions() {
  for (size_t s = 0; s < cluster_.statements.size(); ++s) {
    const plan::ScopStatement& statement = *cluster_.statements[s];
    for (int d : poly::rest(cluster_, s)) {
      const ir::Iterator& iterator = statement.source->domain[d];
      const bool seen = std::any_of(reductions_.begin(), reductions_.end(),
                                    [&](const Loop& loop) { return loop.name == iterator.name; });
      if (!iterator.reduction || seen) continue;
      add(Kind::Reduction, reductions_.size(),
          loops_.empty() || constraints_.cluster.reductions.has_value());
      reductions_.push_back({iterator.name, std::max<int64_t>(1, extent_of(iterator))});
    }
  }
}

void ClusterSpace::find_copies() {
  std::set<std::string> written, computed;
  for (const auto* statement : cluster_.statements) written.insert(statement->source->tensor);
  for (const CopyPlan& copy : start_.copies) {
    if (copy.computes.empty()) continue;
    computed_.push_back(copy);
    computed.insert(copy.read);
  }
  if (constraints_.cluster.copies || loops_.empty()) return;
  for (const auto* statement : cluster_.statements) {
    if (statement->initialization) continue;
    std::set<std::string> seen;
    for (const ir::MemoryAccess& access : accesses(*scop_.program, *statement->source)) {
      const std::string text = ir::access_text(access);
      const bool affine = std::all_of(
          access.subscripts.begin(), access.subscripts.end(), [&](const ir::Expr& subscript) {
            return std::all_of(statement->source->domain.begin(), statement->source->domain.end(),
                               [&](const ir::Iterator& iterator) {
                                 return ir::step_along(subscript, iterator.name).has_value();
                               });
          });
      if (access.write || access.conditional || access.subscripts.empty() || !affine ||
          written.count(access.tensor) || computed.count(text) || !seen.insert(text).second)
        continue;
      CopiedRead read{statement->id, text, {}};
      std::vector<size_t> dimensions(access.subscripts.size());
      std::iota(dimensions.begin(), dimensions.end(), size_t{0});
      if (dimensions.size() <= kFewDimensions) {
        for (const std::vector<size_t>& order : permutations(dimensions))
          read.orders.emplace_back(order.begin(), order.end());
      } else {
        // Each of them as the fastest one.
        for (size_t d = dimensions.size(); d-- > 0;) {
          std::vector<size_t> order = dimensions;
          std::rotate(order.begin() + static_cast<long>(d),
                      order.begin() + static_cast<long>(d) + 1, order.end());
          read.orders.emplace_back(order.begin(), order.end());
        }
      }
      add(Kind::Copy, copies_.size(), !start_.instruction.empty());
      copies_.push_back(std::move(read));
    }
  }
}

int64_t ClusterSpace::gene(const Genes& genes, Kind kind, size_t number) const {
  for (size_t f = 0; f < fields_.size(); ++f)
    if (fields_[f].kind == kind && fields_[f].number == number) return genes[f];
  return 0;
}

int64_t ClusterSpace::known_order(const std::vector<std::string>& names) {
  // What is not named comes last, in the order of the text.
  std::vector<std::string> order = names;
  for (const Loop& loop : loops_)
    if (std::find(order.begin(), order.end(), loop.name) == order.end()) order.push_back(loop.name);
  return known(orders_, order);
}

int64_t ClusterSpace::known_nests(const std::vector<NestPlan>& nests) {
  const auto [known, added] =
      nests_by_text_.emplace(nests_text(nests), static_cast<int64_t>(nests_.size()));
  if (added) nests_.push_back(nests);
  return known->second;
}

Genes ClusterSpace::encode(const ClusterPlan& plan) {
  Genes genes;
  for (const Field& field : fields_) {
    const size_t k = field.number;
    int64_t value = 0;
    switch (field.kind) {
      case Kind::Order: value = known_order(plan.order); break;
      case Kind::TaskOrder: {
        std::vector<std::string> names;
        for (const Tile& tile : plan.tasks) names.push_back(tile.index);
        // What has no tile is whole, wherever it stands.
        for (const std::string& name : plan.order)
          if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        value = known_order(names);
        break;
      }
      case Kind::Parallel: value = plan.run_tasks != plan::Tasks::Serial; break;
      case Kind::Points: value = static_cast<int64_t>(plan.points); break;
      case Kind::Vector: value = plan.vector; break;
      case Kind::Nests: value = known_nests(plan.nests); break;
      case Kind::Task:
        value = std::min(loops_[k].extent, size_of(plan.tasks, loops_[k].name, loops_[k].extent));
        break;
      case Kind::Register:
        value = std::min(loops_[k].extent, size_of(plan.registers, loops_[k].name, 1));
        break;
      case Kind::Reduction:
        value = size_of(plan.reductions, reductions_[k].name, 0);
        if (value >= reductions_[k].extent) value = 0;
        break;
      case Kind::Copy:
        for (const CopyPlan& copy : plan.copies)
          if (copy.computes.empty() && copy.read == copies_[k].read &&
              copy.statement == copies_[k].statement)
            value = known(copies_[k].orders, copy.order) + 1;
        break;
    }
    genes.push_back(value);
  }
  return genes;
}

ClusterPlan ClusterSpace::decode(const Genes& genes) const {
  ClusterPlan plan;
  plan.statements = start_.statements;
  plan.outer = start_.outer;
  plan.joined = start_.joined;
  plan.copies = computed_;
  std::vector<int64_t> tasks(loops_.size()), rows(loops_.size(), 1);
  for (size_t f = 0; f < fields_.size(); ++f) {
    const size_t k = fields_[f].number;
    const int64_t value = genes[f];
    switch (fields_[f].kind) {
      case Kind::Order:
        if (!loops_.empty()) plan.order = orders_[static_cast<size_t>(value)];
        break;
      case Kind::TaskOrder: break;
      case Kind::Parallel:
        plan.run_tasks = value ? plan::Tasks::Parallel : plan::Tasks::Serial;
        break;
      case Kind::Points: plan.points = static_cast<Points>(value); break;
      case Kind::Vector: plan.vector = value != 0; break;
      case Kind::Nests: plan.nests = nests_[static_cast<size_t>(value)]; break;
      case Kind::Task: tasks[k] = value; break;
      case Kind::Register: rows[k] = value; break;
      case Kind::Reduction:
        if (value > 0) plan.reductions.push_back({reductions_[k].name, value});
        break;
      case Kind::Copy:
        if (value > 0)
          plan.copies.push_back({copies_[k].statement,
                                 copies_[k].read,
                                 copies_[k].orders[static_cast<size_t>(value) - 1],
                                 {},
                                 INT32_MAX});
        break;
    }
  }
  if (cuda_) plan.run_tasks = plan::Tasks::Blocks;
  // One vector: where there is a shared one, nests have none of their own.
  if (plan.vector)
    for (NestPlan& nest : plan.nests) nest.vector = false;
  for (size_t m = 0; m < loops_.size(); ++m)
    if (rows[m] > 1) plan.registers.push_back({loops_[m].name, rows[m]});
  if (!loops_.empty())
    for (const std::string& name : orders_[static_cast<size_t>(gene(genes, Kind::TaskOrder))])
      for (size_t m = 0; m < loops_.size(); ++m) {
        if (loops_[m].name != name) continue;
        // Tasks have whole register tiles.
        const int64_t size = std::min(loops_[m].extent, round_up(tasks[m], rows[m]));
        plan.tasks.push_back({name, size});
      }
  if (!start_.instruction.empty()) {
    plan.instruction = start_.instruction;
    plan.registers = start_.registers;
    plan.reductions = start_.reductions;
    plan.points = start_.points;
  } else if (!plan.reductions.empty()) {
    // Of places that mean the same, the one that the compiler's own Plans have.
    plan.points = Points::Apart;
  } else if (!plan.registers.empty() && plan.points != Points::Apart) {
    plan.points = plan.vector ? Points::Inside : Points::Around;
  }
  plan::constrain(plan, constraints_);
  return plan;
}

std::vector<int64_t> ClusterSpace::values(const Field& field, const Genes& genes) const {
  auto count = [](size_t all) {
    std::vector<int64_t> numbers(all);
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    return numbers;
  };
  const size_t k = field.number;
  std::set<int64_t> sizes;
  switch (field.kind) {
    case Kind::Order:
    case Kind::TaskOrder: return count(orders_.size());
    case Kind::Parallel:
    case Kind::Vector: return count(2);
    case Kind::Points: return count(4);
    case Kind::Nests: return count(nests_.size());
    case Kind::Copy: return count(copies_[k].orders.size() + 1);
    case Kind::Task: return plan::tile_sizes(loops_[k].extent, gene(genes, Kind::Register, k));
    case Kind::Register: {
      const bool vector =
          gene(genes, Kind::Vector) != 0 &&
          orders_[static_cast<size_t>(gene(genes, Kind::Order))].back() == loops_[k].name;
      sizes.insert(1);
      if (vector)
        for (int64_t vectors : kVectors) sizes.insert(std::min(loops_[k].extent, vectors * lanes_));
      else
        sizes.insert(std::begin(kRows), std::end(kRows));
      while (*sizes.rbegin() > loops_[k].extent) sizes.erase(std::prev(sizes.end()));
      break;
    }
    case Kind::Reduction:
      // A whole one has no tiles.
      for (int64_t size : plan::tile_sizes(reductions_[k].extent))
        sizes.insert(size == reductions_[k].extent ? 0 : size);
      break;
  }
  return {sizes.begin(), sizes.end()};
}

void ClusterSpace::set_random(size_t f, Genes& genes, Random& random) {
  const Field& field = fields_[f];
  switch (field.kind) {
    case Kind::Vector: genes[f] = random.chance(kVector); return;
    case Kind::Parallel: genes[f] = random.chance(kParallel); return;
    case Kind::Reduction:
      if (!random.chance(kWhole)) break;
      genes[f] = 0;
      return;
    case Kind::Copy:
      if (random.chance(kCopy)) break;
      genes[f] = 0;
      return;
    case Kind::Nests:
      genes[f] = known_nests(change(nests_[static_cast<size_t>(genes[f])], random));
      return;
    case Kind::Order:
    case Kind::TaskOrder: {
      // Of many loops, not all orders are known.
      std::vector<std::string> order = orders_[static_cast<size_t>(genes[f])];
      for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
      genes[f] = known(orders_, order);
      return;
    }
    default: break;
  }
  genes[f] = random.pick(values(field, genes));
}

void ClusterSpace::draw(Genes& genes, double share, Random& random) {
  for (size_t f = 0; f < fields_.size(); ++f)
    if (!fields_[f].fixed && random.chance(share)) set_random(f, genes, random);
}

void ClusterSpace::mutate(Genes& genes, Random& random) {
  std::vector<size_t> open;
  for (size_t f = 0; f < fields_.size(); ++f)
    if (!fields_[f].fixed) open.push_back(f);
  if (open.empty()) return;
  const size_t f = random.pick(open);
  if (!fields_[f].is_size() || !random.chance(kStep)) return set_random(f, genes, random);
  const std::vector<int64_t> all = values(fields_[f], genes);
  auto at = std::lower_bound(all.begin(), all.end(), genes[f]) - all.begin();
  at += (random.chance(0.5) ? 1 : -1) * (random.chance(kShortStep) ? 1 : 2);
  genes[f] =
      all[static_cast<size_t>(std::clamp<int64_t>(at, 0, static_cast<int64_t>(all.size()) - 1))];
}

std::vector<Genes> ClusterSpace::neighbours(const Genes& genes) {
  std::vector<Genes> found;
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    if (field.fixed) continue;
    std::vector<int64_t> near;
    const std::vector<int64_t> all = values(field, genes);
    if (field.is_size()) {
      const auto above = std::upper_bound(all.begin(), all.end(), genes[f]);
      const auto below = std::lower_bound(all.begin(), all.end(), genes[f]);
      if (above != all.end()) near.push_back(*above);
      if (below != all.begin()) near.push_back(*std::prev(below));
    } else {
      near = all;
    }
    for (int64_t value : near) {
      if (value == genes[f]) continue;
      found.push_back(genes);
      found.back()[f] = value;
    }
  }
  return found;
}

std::vector<NestPlan> ClusterSpace::separate_nests() const {
  std::vector<NestPlan> nests;
  for (size_t s = 0; s < cluster_.statements.size(); ++s) {
    NestPlan nest;
    nest.statements = {cluster_.statements[s]->id};
    for (int d : poly::rest(cluster_, s))
      nest.loops[0].push_back(cluster_.statements[s]->source->domain[d].name);
    nests.push_back(nest);
  }
  return nests;
}

std::vector<NestPlan> ClusterSpace::change(std::vector<NestPlan> nests, Random& random) const {
  if (nests.empty()) nests = separate_nests();
  std::vector<size_t> with_loops;
  for (size_t n = 0; n < nests.size(); ++n)
    if (!nests[n].loops[0].empty()) with_loops.push_back(n);
  if (with_loops.empty()) return nests;
  const size_t n = random.pick(with_loops);
  NestPlan& nest = nests[n];
  switch (random.below(4)) {
    case 0:
      if (constraints_.allows_own_vectors()) nest.vector = !nest.vector;
      break;
    case 1: {  // another loop innermost, for all of its statements
      const size_t from = random.below(nest.loops[0].size());
      for (auto& loops : nest.loops)
        if (from < loops.size())
          std::rotate(loops.begin() + static_cast<long>(from),
                      loops.begin() + static_cast<long>(from) + 1, loops.end());
      break;
    }
    case 2:  // statements of the next one into this one
      if (n + 1 < nests.size() && nests[n + 1].loops[0].size() == nest.loops[0].size()) {
        NestPlan joint = nest;
        joint.loops.resize(joint.statements.size(), joint.loops[0]);
        const NestPlan& next = nests[n + 1];
        for (size_t s = 0; s < next.statements.size(); ++s) {
          joint.statements.push_back(next.statements[s]);
          joint.loops.push_back(next.loops[next.loops.size() > 1 ? s : 0]);
        }
        nests[n] = joint;
        nests.erase(nests.begin() + static_cast<long>(n) + 1);
      }
      break;
    default:  // the last statement gets a nest of its own
      if (nest.statements.size() > 1) {
        NestPlan own;
        own.vector = nest.vector;
        own.statements = {nest.statements.back()};
        own.loops = {nest.loops.back()};
        nest.statements.pop_back();
        if (nest.loops.size() > 1) nest.loops.pop_back();
        nests.insert(nests.begin() + static_cast<long>(n) + 1, own);
      }
  }
  return nests;
}

}  // namespace tc::tune
