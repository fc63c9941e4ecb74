#include "plan/model/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <set>
#include <vector>

#include "base/memory.h"
#include "base/notes.h"
#include "base/numbers.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/operations.h"
#include "ir/scan.h"
#include "isa/instructions.h"
#include "machine/limits.h"
#include "machine/operation_costs.h"
#include "plan/model/copy_cycles.h"
#include "plan/model/interleaved_stores.h"
#include "plan/model/line_cycles.h"
#include "plan/model/statement_accesses.h"
#include "plan/model/statement_loops.h"
#include "plan/model/statement_reuse.h"

namespace tc::plan {
namespace {

// Of the slots for instructions, how many cycles they take: loops and addresses are around them.
constexpr double kIssue = 1.05;
// Multiply-adds that a term takes where the processor does not have the instruction that adds it
// up.
constexpr double kEmulated = 1.5;
// Loads of a read that a condition guards.
constexpr double kConditional = 2;
// Cycles that a load of a vector with some lanes off waits for stores of such vectors, whose lanes
// that are off overlap it: they are not forwarded (rows of 14, one behind the other, take 33 cycles
// each on a Zen 4).
constexpr double kBlockedLoad = 25;
// Results that follow each other and are worth transposing.
constexpr int64_t kShortRun = 4;
// Parts smaller than this share of the whole are not told of.
constexpr double kTold = 0.01;

constexpr std::pair<const char*, double Estimate::*> kParts[] = {
    {"arithmetic", &Estimate::arithmetic},
    {"loads", &Estimate::loads},
    {"latency", &Estimate::latency},
    {"spills", &Estimate::spills},
    {"second cache", &Estimate::second_cache},
    {"last cache", &Estimate::last_cache},
    {"memory", &Estimate::memory},
    {"copies", &Estimate::copies},
    {"stores", &Estimate::stores},
    {"start", &Estimate::start}};

/// Of an addition or a subtraction; nothing of other operations.
std::vector<ir::Expr> operands_of_sum(const Halide::Internal::BaseExprNode* node) {
  const ir::Expr e(node);
  if (const auto* add = e.as<Halide::Internal::Add>()) return {add->a, add->b};
  if (const auto* subtract = e.as<Halide::Internal::Sub>()) return {subtract->a, subtract->b};
  return {};
}

class StatementEstimate {
 public:
  StatementEstimate(const ClusterPlan& plan, size_t s, const ClusterContext& in, double touched,
                    std::set<std::string>& copies)
      : plan_(plan),
        number_(s),
        in_(in),
        statement_(*in.cluster.statements[s]),
        domain_(statement_.source->domain),
        machine_(in.machine),
        touched_(touched),
        nest_(find_loops(plan, s, in)),
        accesses_(plan, s, in, nest_, copies),
        extents_(accesses_.extents()) {}

  /// Blocks in registers begin with their initial values there.
  bool is_empty() const { return statement_.initialization && nest_.register_tile; }

  size_t number() const { return number_; }
  void add_to(StatementReuse& reuse) const {
    const bool in_registers =
        nest_.register_tile && !has_points_apart(plan_) && stores_of_a_result() == 1;
    reuse.add(number_, nest_, accesses_, in_registers);
  }

  /// `task_cycles` begin the statement's part of a task; `reuse` null where no other statement has
  /// accessed anything.
  Estimate estimate(double task_cycles, const StatementReuse* reuse) {
    held_ = reuse ? reuse->held(number_) : std::vector<bool>(accesses_.all().size());
    count_body();
    count_traffic(reuse ? &reuse->found(number_) : nullptr, reuse ? reuse->bytes() : 0);
    count_stores();
    count_start(task_cycles);
    return result_;
  }

  /// Sums of lanes of rows that the next statement of the same row waits for.
  double count_waits() const {
    const bool sums_lanes = nest_.vector >= 0 && is_reduction(nest_.vector);
    if (!sums_lanes || nest_.register_tile || ir::is_scan(*statement_.source)) return 0;
    for (size_t l = nest_.around; l < nest_.loops.size(); ++l)
      if (nest_.loops[l].is_loop() && !is_reduction(nest_.loops[l].iterator)) return 0;
    // Those of a block of rows go on beside each other.
    double waits = count_results();
    for (size_t i = 0; i < statement_.dimensions; ++i)
      if (!is_reduction(i)) waits /= static_cast<double>(nest_.block[i]);
    return waits;
  }

 private:
  bool reduces() const { return statement_.source->reduction != ir::Reduction::None; }
  bool is_reduction(size_t i) const { return i < statement_.dimensions && domain_[i].reduction; }
  double element_bytes() const {
    return in_.program.tensor(statement_.source->tensor).type.bytes();
  }

  // ---- operations and loads

  /// Of all bodies of the innermost loops, whole ones and those at the ends.
  void count_body() {
    std::vector<int64_t> points = nest_.block;
    const auto all = std::count_if(points.begin(), points.end(), [](int64_t p) { return p > 1; });
    for (unsigned tails = 0; tails < 1U << all; ++tails) {
      double count = 1;
      unsigned left = tails;  // a bit for every iterator that has more points than one
      for (size_t i = 0; i < extents_.size(); ++i) {
        const int64_t block = nest_.block[i];
        const bool tail = block > 1 && (left & 1U) != 0;
        if (block > 1) left >>= 1U;
        points[i] = tail ? extents_[i] % block : block;
        count *= static_cast<double>(tail ? points[i] > 0 : extents_[i] / block);
      }
      if (count > 0) count_body(points, count);
    }
  }

  void count_body(const std::vector<int64_t>& points, double count) {
    const double arithmetic = count_operations(points);
    const std::vector<Access>& all = accesses_.all();
    double loads = 0;
    for (size_t a = 0; a < all.size(); ++a)
      if (!all[a].access.write && !held_[a]) loads += count_loads(all[a], points);
    const double issue = std::max(arithmetic, loads / machine_.loads);
    // Results each wait for the step before; lanes of a sum are taken in several parts.
    const double latency = reduces() ? latency_of_a_step() : 0;
    result_.arithmetic += count * arithmetic * kIssue;
    result_.loads += count * (issue - arithmetic) * kIssue;
    result_.latency += count * std::max(0.0, latency - issue);
    result_.spills += count * count_spilled(points) * machine_.spilled_vector_cycles;
  }

  /// Cycles from a body to the next one that needs it.
  double latency_of_a_step() const {
    const bool sums_lanes = nest_.vector >= 0 && is_reduction(nest_.vector);
    if (!sums_lanes || nest_.register_tile)
      return waits_for_steps() ? machine_.multiply_latency : 0;
    // The vectors of a row are taken in several parts, to which the loops around them add.
    double vectors = 1, steps = 1;
    for (const NestLoop& loop : nest_.loops)
      if (loop.is_loop() && is_reduction(loop.iterator))
        (loop.iterator == nest_.vector ? vectors : steps) *= loop.whole_iterations();
    return steps > 1 ? machine_.multiply_latency / vectors : 0;
  }

  /// Whether a body needs what the one before it has computed: a term is added to the same result.
  bool waits_for_steps() const {
    if (nest_.register_tile) return true;
    for (size_t l = nest_.loops.size(); l-- > 0;)
      if (nest_.loops[l].is_loop()) return is_reduction(nest_.loops[l].iterator);
    return false;
  }

  /// Vectors of a register tile that find no register: its results, operands that it uses again
  /// later in the same step, and one each for what it loads, what it broadcasts and the compiler.
  double count_spilled(const std::vector<int64_t>& points) const {
    if (!nest_.register_tile || !reduces()) return 0;
    double results = ir::registers_of_results(*statement_.source);
    for (size_t i = 0; i < points.size(); ++i)
      if (!is_reduction(i)) results *= static_cast<double>(nest_.vectors(i, points[i]));
    double vectors = 1, scalars = 1;
    for (const Access& access : accesses_.all()) {
      if (access.access.write) continue;
      double& held = access.strides[nest_.vector] != 0 ? vectors : scalars;
      held = std::max(held, count_held(access, points));
    }
    return std::max(0.0, results + vectors + scalars + 1 - machine_.vector_registers);
  }

  /// What a read loads inside the outermost loop of a register tile that uses it again: LLVM loads
  /// nothing twice in a step.
  double count_held(const Access& access, const std::vector<int64_t>& points) const {
    double held = 1;
    bool again = false;
    for (size_t l = nest_.copies; l < nest_.loops.size(); ++l) {
      const auto i = static_cast<size_t>(nest_.loops[l].iterator);
      if (is_reduction(i) || nest_.vectors(i, points[i]) < 2) continue;
      if (access.strides[i] == 0)
        again = true;
      else if (again)
        held *= static_cast<double>(nest_.vectors(i, points[i]));
    }
    return held;
  }

  /// How often something that moves along these iterators is done in a body of so many points, if
  /// what stays the same is taken out of the loops.
  template <class Moves>
  double times(const std::vector<int64_t>& points, Moves moves) const {
    double result = 1;
    for (size_t i = 0; i < points.size(); ++i)
      if (moves(i)) result *= static_cast<double>(nest_.vectors(i, points[i]));
    for (size_t l = nest_.loops.size(); l-- > nest_.copies;) {
      const NestLoop& loop = nest_.loops[l];
      if (!loop.is_loop()) continue;
      if (moves(loop.iterator)) break;
      result /= loop.iterations();
    }
    return result;
  }

  /// In which a vector passes through units that are narrower.
  double parts_of_a_vector(const std::vector<int64_t>& points) const {
    if (nest_.vector < 0) return 1;
    const int64_t lanes = lanes_of_block(points[nest_.vector], nest_.lanes);
    const auto bits = static_cast<int64_t>(element_bytes() * 8) * lanes;
    return static_cast<double>(divide_up(bits, static_cast<int64_t>(machine_.step_bits())));
  }

  /// Whether the indices of a condition are those of unrolled loops alone, so that nothing is
  /// chosen when the program runs.
  bool is_unrolled(const ir::Expr& condition) const {
    if (!nest_.register_tile) return false;
    const std::set<std::string> names = ir::variables_of(condition);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      for (size_t i = 0; i < statement_.dimensions; ++i)
        if (domain_[i].name == name)
          return static_cast<int>(i) != nest_.vector && nest_.block[i] == extents_[i];
      return false;
    });
  }

  /// Cycles in which units for vectors are busy with a body.
  double count_operations(const std::vector<int64_t>& points) const {
    const double slot = parts_of_a_vector(points) / machine_.multiply_adds;
    const int lanes = nest_.vector >= 0 ? nest_.lanes : 1;
    const double floats = 512.0 / 8 / element_bytes();
    double cycles = 0, divisions = 0;  // which have a unit of their own
    std::set<const Halide::Internal::BaseExprNode*> products;
    if (reduces()) {
      cycles += slot * times(points, [&](size_t) { return true; });
      // An instruction does all of it, or some for each of its terms.
      if (nest_.terms >= 0)
        return cycles * isa::find_instruction(plan_.instruction)->instructions *
               (machine_.dot_products > 0
                    ? static_cast<double>(machine_.multiply_adds) / machine_.dot_products
                    : kEmulated * static_cast<double>(points[nest_.terms]));
      const ir::Expr& value = statement_.source->value;
      if (statement_.source->reduction == ir::Reduction::Sum && value.type().is_float() &&
          value.as<Halide::Internal::Mul>())
        products.insert(value.get());
    }
    ir::for_each_operation(statement_.source->value, [&](const ir::Operation& operation) {
      if (operation.kind == ir::OperationKind::Read || operation.of_indices ||
          statement_.initialization)
        return;
      const ir::Expr e(operation.node);
      const bool chooses = operation.kind == ir::OperationKind::Choice;
      if (chooses && is_unrolled(ir::find_choice(e)->condition)) return;
      // A product is added in the same instruction.
      if (products.count(operation.node)) return;
      for (const ir::Expr& operand : operands_of_sum(operation.node))
        if (operand.as<Halide::Internal::Mul>() && operand.type().is_float() &&
            products.insert(operand.get()).second)
          break;
      const machine::OperationCost& cost = machine::operation_cost(operation.name);
      const bool divides = operation.name == "/" && operation.type.is_float();
      const double each = divides ? machine_.cycles_of_division(lanes * operation.type.bits())
                          : cost.one_by_one    ? cost.cycles * lanes
                          : cost.cycles <= 0.5 ? cost.cycles * 2 * slot
                                               : cost.cycles * (lanes / floats);
      (divides ? divisions : cycles) +=
          each * times(points, [&](size_t i) {
            return i < statement_.dimensions && Halide::Internal::expr_uses_var(e, domain_[i].name);
          });
    });
    return std::max(cycles, divisions);
  }

  double count_loads(const Access& access, const std::vector<int64_t>& points) const {
    auto moves = [&](size_t i) { return access.strides[i] != 0; };
    // Blocks in registers load what they need in every step.
    double loads = 1;
    if (nest_.register_tile) {
      for (size_t i = 0; i < points.size(); ++i)
        if (moves(i)) loads *= static_cast<double>(nest_.vectors(i, points[i]));
      loads *= accesses_.share_of_windows(access, points);
    } else {
      loads = times(points, moves);
    }
    return loads * (access.access.conditional ? kConditional : 1) *
           accesses_.loads_of_a_vector(access, parts_of_a_vector(points));
  }

  // ---- lines

  /// Of lines of a tensor, or of a copy, which no further cache than the last one gets.
  Lines cycles_of(Brought lines, const LineCosts& costs, bool of_tensor = true) const {
    const double near = static_cast<double>(machine_.last_cache_share);
    for (double& each : lines) each *= kLineBytes;
    return cycles_of_bytes(lines, of_tensor ? touched_ : std::min(touched_, near), costs, machine_);
  }

  /// `found` says of every access whether it finds what so many bytes have not driven out; null: of
  /// none.
  void count_traffic(const std::vector<bool>* found, double bytes) {
    const CacheSize caches[] = {
        {static_cast<double>(machine_.first_cache_bytes),
         machine_.first_cache_bytes / kLineBytes / machine_.first_cache_ways,
         machine_.first_cache_ways},
        {second_cache_bytes(machine_)},
        {static_cast<double>(machine_.last_cache_share)}};
    // What the last cache holds comes from memory once, before.
    const size_t levels = touched_ > caches[2].bytes ? 3 : 2;
    const std::vector<Access>& all = accesses_.all();
    std::vector<Brought> used(all.size()), sources = used;
    std::vector<double> left;
    for (size_t c = 0; c < levels; ++c) {
      NestTraffic traffic(caches[c], nest_.block);
      std::vector<size_t> read_by_copies(all.size());
      for (const Access& access : all) traffic.add(access.used);
      for (size_t l = nest_.loops.size() + 1; l-- > 0;) {
        for (size_t a = 0; l == nest_.copies && a < all.size(); ++a) {
          if (!all[a].copy) continue;
          traffic.fill(a);
          if (all[a].makes_copy) read_by_copies[a] = traffic.add(all[a].footprint);
        }
        if (l > 0) traffic.pass(nest_.loops[l - 1]);
      }
      for (size_t a = 0; a < all.size(); ++a) {
        used[a][c] = all[a].copy ? traffic.brought_again(a) : traffic.brought(a);
        if (found && (*found)[a]) used[a][c] *= 1 - kept_share(bytes / caches[c].bytes);
        if (c == 0) left.push_back(all[a].makes_copy ? traffic.left(a) : 0);
        if (all[a].makes_copy) sources[a][c] = traffic.brought(read_by_copies[a]);
      }
    }
    double transfers = 0;  // to the first cache, as if nothing else went on
    for (size_t a = 0; a < all.size(); ++a) {
      const Access& access = all[a];
      transfers += used[a][0] * kLineBytes / machine_.second_cache_rate();
      if (access.access.write) {
        written_ = cycles_of(used[a], kWritten);
        continue;
      }
      LineCosts costs = access.spread ? spread_lines(machine_) : walked_lines(machine_);
      // Behind the arithmetic of the statements that follow in a row, lines from far away are on
      // their way; one that passes over a task by itself waits for its own, like a copy.
      if (found && plan_.points == Points::Apart)
        costs = {costs.second, kCopied.last, kCopied.memory};
      const Lines lines = cycles_of(used[a], costs, !access.copy);
      result_.second_cache += lines.second;
      result_.last_cache += lines.last;
      result_.memory += lines.memory;
      if (!access.makes_copy) continue;
      const Lines source = cycles_of(sources[a], kCopied);
      result_.copies += count_copy(access) + source.second + source.last + source.memory +
                        cycles_of({left[a], 0, 0}, kFilled).second;
    }
    // Arithmetic hides no more than it takes itself.
    const double hidden = result_.arithmetic + result_.loads + result_.latency;
    if (!nest_.register_tile)
      result_.second_cache = std::max(result_.second_cache, transfers - hidden);
  }

  // ---- copies

  /// Of all times that it is made.
  double count_copy(const Access& access) const {
    double elements = 1, times = 1;
    std::vector<CopyLoop> loops;
    const Layout& layout = in_.layouts.at(access.access.tensor);
    for (auto each = access.copy->order.rbegin(); each != access.copy->order.rend(); ++each) {
      const auto stride = static_cast<double>(layout.strides[each->dimension]);
      const int64_t extent =
          each->size(static_cast<int64_t>(accesses_.copied_elements(access, each->dimension)));
      const bool blocks = each->part == poly::CopyDimension::Part::Block;
      loops.push_back(
          {extent, blocks ? stride * static_cast<double>(each->block) : stride, elements});
      elements *= static_cast<double>(extent);
    }
    for (size_t l = 0; l < nest_.copies; ++l)
      times *= static_cast<double>(divide_up(nest_.loops[l].extent, nest_.loops[l].size));
    double cycles = cycles_of_copy(loops, access.footprint.element, machine_);
    if (!access.copy->computes.empty()) cycles += elements * cycles_of_value(*access.copy);
    return times * cycles;
  }

  /// Of an element that a copy computes.
  double cycles_of_value(const CopyPlan& copy) const {
    double cycles = 0;
    for (const ir::Statement& source : in_.program.statements) {
      if (source.name != copy.computes) continue;
      ir::for_each_operation(source.value, [&](const ir::Operation& operation) {
        if (operation.kind == ir::OperationKind::Read || operation.of_indices) return;
        const machine::OperationCost& cost = machine::operation_cost(operation.name);
        cycles += cost.one_by_one ? cost.cycles : cost.cycles * source.value.type().bytes() / 64.0;
      });
    }
    return cycles;
  }

  // ---- results

  double count_results() const {
    double results = 1;
    for (size_t i = 0; i < statement_.dimensions; ++i)
      if (!domain_[i].reduction) results *= static_cast<double>(extents_[i]);
    return results;
  }

  void count_stores() {
    const Access& write = accesses_.all().back();
    const double results = stores_of_a_result() * count_results();
    const double stored = held_.back() ? 0 : results;
    result_.stores +=
        stored * cycles_of_store(write) + written_.second + written_.last + written_.memory;
    // Sums of lanes, a result each.
    if (nest_.vector >= 0 && is_reduction(nest_.vector) && !ir::is_scatter(*statement_.source))
      result_.latency += results * machine_.lanes_sum_cycles;
    if (reads_cut_vectors())
      result_.latency += results / static_cast<double>(extents_[nest_.vector]) * kBlockedLoad;
  }

  /// Whether results that terms are added to in memory are read in vectors of which some end with
  /// lanes that are off.
  bool reads_cut_vectors() const {
    if (!reduces() || nest_.register_tile || nest_.vector < 0 || is_reduction(nest_.vector))
      return false;
    int64_t lanes = nest_.lanes;
    while (lanes > 1 && extents_[nest_.vector] <= lanes / 2) lanes /= 2;
    return extents_[nest_.vector] % lanes != 0;
  }

  /// How often a result is stored: it stays in registers but between tiles of reductions, and for
  /// loops over terms that go around one over results.
  double stores_of_a_result() const {
    double stores = 1;
    for (size_t l = nest_.tasks; l < nest_.copies; ++l)
      if (is_reduction(nest_.loops[l].iterator)) stores *= nest_.loops[l].whole_iterations();
    bool around = false;
    for (size_t l = nest_.loops.size(); l-- > nest_.copies && !nest_.register_tile;) {
      const NestLoop& loop = nest_.loops[l];
      if (!loop.is_loop()) continue;
      if (!is_reduction(loop.iterator)) around = true;
      if (is_reduction(loop.iterator) && around) stores *= loop.iterations();
    }
    return stores;
  }

  /// Of one result.
  double cycles_of_store(const Access& write) const {
    if (nest_.vector < 0) return 1;
    const auto stride = write.strides[nest_.vector];
    const auto element = static_cast<int64_t>(write.footprint.element);
    if (stride == 0) return 1;
    if (stride == element || stride == -element) return 1.0 / nest_.lanes;
    const int64_t apart = stride.value_or(0) / element;
    for (size_t i = 0; i < extents_.size(); ++i)
      if (nest_.register_tile && write.strides[i] == element &&
          machine::is_interleaved(apart, nest_.block[i]))
        return cycles_of_interleaved(apart, nest_.lanes);
    for (size_t i = 0; i < extents_.size(); ++i)
      if (nest_.block[i] >= kShortRun && write.strides[i] == element)
        return machine_.transposed_store_cycles;
    return std::abs(stride.value_or(kPageBytes)) >= kPageBytes ? machine_.far_store_cycles
                                                               : machine_.scattered_store_cycles;
  }

  // ---- what begins

  /// Of vector operations in a block of results in registers, all its terms together.
  double count_block_operations() const {
    double operations = ir::registers_of_results(*statement_.source);
    for (size_t i = 0; i < nest_.block.size(); ++i)
      operations *= static_cast<double>(nest_.vectors(i, nest_.block[i]));
    for (const NestLoop& loop : nest_.loops)
      if (loop.is_loop() && is_reduction(loop.iterator)) operations *= loop.iterations();
    return operations;
  }

  void count_start(double task_cycles) {
    double tasks = 1, nests = 1;
    size_t innermost = nest_.loops.size();
    while (innermost > 0 && !nest_.loops[innermost - 1].is_loop()) --innermost;
    for (size_t l = 0; l < nest_.loops.size(); ++l) {
      const NestLoop& loop = nest_.loops[l];
      if (l < nest_.tasks) tasks *= loop.whole_iterations();
      const bool begins = l < nest_.copies || !is_reduction(loop.iterator);
      if (nest_.register_tile ? begins : l + 1 < innermost) nests *= loop.whole_iterations();
    }
    result_.start += tasks * task_cycles;
    // Sums of lanes go on beside each other, and what adds the lanes up is counted.
    const bool sums_lanes = nest_.vector >= 0 && is_reduction(nest_.vector);
    if (nest_.register_tile)
      result_.start += nests * cycles_of_block(count_block_operations(), machine_);
    else if (!sums_lanes)
      result_.start += nests * machine_.loop_cycles;
  }

  const ClusterPlan& plan_;
  const size_t number_;  ///< of the statement in the cluster
  const ClusterContext in_;
  const ScopStatement& statement_;
  const std::vector<ir::Iterator>& domain_;
  const CpuMachine& machine_;
  const double touched_;  ///< bytes by the whole cluster
  const StatementLoops nest_;
  const StatementAccesses accesses_;
  const std::vector<int64_t>& extents_;  ///< by number of the iterator
  std::vector<bool> held_;               ///< accesses that stay in registers
  Lines written_;
  Estimate result_;
};

/// Of the loops that the statements share, and of those around them.
double shared_iterations(const Cluster& cluster) {
  auto result = static_cast<double>(outer_iterations(cluster));
  for (int i : cluster.alignment.front())
    result *= static_cast<double>(extent_of(cluster.statements.front()->source->domain[i]));
  return result;
}

}  // namespace

double Estimate::total() const {
  double sum = 0;
  for (const auto& [name, part] : kParts) sum += this->*part;
  return sum;
}

std::vector<std::pair<const char*, double>> Estimate::parts() const {
  std::vector<std::pair<const char*, double>> all;
  for (const auto& [name, part] : kParts) all.emplace_back(name, this->*part);
  return all;
}

Estimate& Estimate::operator+=(const Estimate& other) {
  for (const auto& [name, part] : kParts) this->*part += other.*part;
  return *this;
}

std::string to_string(const Estimate& estimate) {
  std::vector<std::string> texts;
  for (const auto& [name, cycles] : estimate.parts())
    if (cycles >= kTold * estimate.total() && cycles > 0)
      texts.push_back(count_text(cycles) + " " + name);
  return join(texts);
}

double cycles_of_block(double operations, const CpuMachine& machine) {
  if (operations > machine::kUnrolledOperations) return machine.block_cycles;
  return std::max(machine.loop_cycles, machine.block_cycles - machine.wrong_guess_cycles);
}

Estimate estimate(const ClusterPlan& plan, const ClusterContext& in) {
  Estimate result;
  // One statement has nothing to leave for others.
  const bool several = !computes_one(in.cluster) && in.cluster.shared > 0;
  const std::set<std::string> own = several ? own_temporaries(in) : std::set<std::string>();
  const double touched = touched_bytes(in, own);
  std::set<std::string> copies;
  std::deque<StatementEstimate> statements;
  for (size_t s = 0; s < in.cluster.statements.size(); ++s) {
    if (instances(*in.cluster.statements[s]) == 0) continue;
    statements.emplace_back(plan, s, in, touched, copies);
    if (statements.back().is_empty()) statements.pop_back();
  }
  StatementReuse reuse(in.cluster, own);
  for (const StatementEstimate& statement : statements)
    if (several) statement.add_to(reuse);
  // A task begins once for all statements. What runs inside of another cluster's tasks has loops in
  // the place of tasks.
  double task_cycles = plan.joined ? in.machine.loop_cycles : in.machine.task_cycles, waits = 0;
  for (StatementEstimate& statement : statements) {
    const Estimate part = statement.estimate(task_cycles, several ? &reuse : nullptr);
    if (part.start > 0) task_cycles = in.machine.loop_cycles;
    result += part;
    if (several && is_read_later(in, statement.number())) waits += statement.count_waits();
  }
  if (waits > 0) {
    // A core that looks ahead as far as the next rows works on these meanwhile.
    const double row = (result.arithmetic + result.loads) / shared_iterations(in.cluster);
    const double alone = 2 * row / in.machine.window_cycles - 1;
    result.latency += waits * in.machine.waited_sum_cycles * std::clamp(alone, 0.0, 1.0);
  }
  return result;
}

}  // namespace tc::plan
