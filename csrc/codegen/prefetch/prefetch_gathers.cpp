#include "codegen/prefetch/prefetch_gathers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/numbers.h"
#include "codegen/names.h"
#include "codegen/prefetch/walks.h"
#include "ir/expressions/simplify.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// The buffers whose reads are prefetched, and what for.
struct Sought {
  const std::set<std::string>& buffers;
  const CpuMachine& machine;
};

/// Neighbours in a buffer.
struct Row {
  Type type;
  std::string buffer;
  Expr index;                  ///< of an element
  int64_t first = 0, end = 1;  ///< elements from there on

  int64_t bytes() const { return (end - first) * type.bytes(); }
  int64_t requests(const CpuMachine& machine) const {
    return divide_up(bytes(), machine.lines_of_a_request * kLineBytes);
  }
};

/// What an iteration reads, each row once.
class Rows {
 public:
  explicit Rows(const CpuMachine& machine) : machine_(machine) {}
  std::vector<Row> rows;

  /// The row of a read, or those of its iterations of the loops inside.
  void add(const Read& read) {
    add({read.type, read.buffer, read.index}, read.inside, read.inside.size());
  }

 private:
  /// Elements so near to each other mostly lie in one line, or in two with one prefetched in each;
  /// vectors so near to each other lie in one row, of which all lines are prefetched.
  int64_t near_bytes(bool vector) const {
    return vector ? machine_.lines_at_once() * kLineBytes : kLineBytes / 2;
  }

  void add(Row row, const std::vector<AroundLoop>& inside, size_t loops) {
    if (loops == 0) return join(std::move(row));
    const AroundLoop& loop = inside[loops - 1];
    const auto extent = as_const_int(loop.extent);
    const auto step = ir::step_along(row.index, loop.name);
    // Lanes at places of their own are no row.
    if (!extent || (loop.vector && !step)) return;
    const bool continues =
        step == row.end && row.bytes() * *extent <= near_bytes(row.end > 1 || loop.vector);
    if (step == 0 || continues) {
      if (continues) row.end *= *extent;
      row.index = substitute(loop.name, loop.min, row.index);
      return add(std::move(row), inside, loops - 1);
    }
    for (int k = 0; k < *extent; ++k) {
      Row one = row;
      one.index = substitute(loop.name, simplify(loop.min + k), row.index);
      add(std::move(one), inside, loops - 1);
    }
  }

  void join(Row row) {
    const int64_t near = near_bytes(row.end > 1) / row.type.bytes();
    for (Row& known : rows) {
      if (known.buffer != row.buffer) continue;
      const auto distance = as_const_int(simplify(row.index - known.index));
      if (!distance) continue;
      const int64_t first = std::min(*distance, known.first);
      const int64_t end = std::max(*distance + row.end, known.end);
      if (end - first > near) continue;
      known.first = first;
      known.end = end;
      return;
    }
    rows.push_back(std::move(row));
  }

  const CpuMachine& machine_;
};

/// A loop whose rows are prefetched ahead of their use.
struct Gathers {
  const Loop* loop = nullptr;
  std::vector<Row> rows;
  const CpuMachine* machine = nullptr;
  int ahead = 0;    ///< iterations
  int shortly = 0;  ///< the same of requests into the first cache; 0: there are none

  /// Prefetches what an iteration reads.
  Nest prefetch(const Expr& iteration, int cache) const {
    std::vector<Nest> prefetches;
    for (const Row& row : rows) {
      // Of one address, other lines are displacements of an instruction.
      const Expr first = wide(substitute(loop->name, iteration, row.index));
      const int64_t elements = machine->lines_of_a_request * kLineBytes / row.type.bytes();
      for (int64_t k = 0; k < row.requests(*machine); ++k)
        prefetches.push_back(nest::make(
            nest::Prefetch{row.buffer, row.type, first + wide(row.first + k * elements), cache}));
    }
    return nest::make_sequence(prefetches);
  }
};

/// Nothing where a loop has no such reads, or other loops inside.
std::optional<Gathers> gathers_of(const Loop& loop, const Sought& sought) {
  const CpuMachine& machine = sought.machine;
  if (loop.role != Role::Serial || has_loops(loop.body)) return std::nullopt;
  Rows found(machine);
  for (const Read& read : find_gathers(loop.body))
    if (sought.buffers.count(read.buffer) && ir::any<Load>(read.index, [&](const Load* load) {
          return expr_uses_var(load->index, loop.name);
        }))
      found.add(read);
  const auto rows = static_cast<int64_t>(found.rows.size());
  // More of them keep the memory busy by themselves.
  if (rows == 0 || rows > 3 * machine.line_buffers) return std::nullopt;
  int64_t requests = 0;
  bool brief = machine.lines_of_a_request == 1;
  for (const Row& row : found.rows) {
    requests += row.requests(machine);
    brief = brief && row.bytes() <= machine.short_row_bytes;
  }
  const int64_t ahead =
      std::min(divide_up(machine.rows_ahead, rows), divide_up(machine.requests_ahead, requests));
  const int64_t shortly = brief ? divide_up(machine.short_rows_ahead, rows) : 0;
  return Gathers{&loop, std::move(found.rows), &machine, static_cast<int>(ahead),
                 static_cast<int>(shortly < ahead ? shortly : 0)};
}

/// A loop that runs next, if the guard holds.
struct Next {
  Gathers gathers;
  Expr guard = const_true();
  /// Where it is the first of the next iteration of a loop around it, whatever that is: so many
  /// follow.
  Expr repeats = Expr();
};

/// The first of a nest's loops whose reads can be prefetched in front of the nest, for every branch
/// that it may take.
std::vector<Next> find_first(const Nest& nest, const Sought& sought) {
  if (const auto* sequence = as<nest::Sequence>(nest)) {
    for (const Nest& part : sequence->parts)
      if (std::vector<Next> first = find_first(part, sought); !first.empty()) return first;
    return {};
  }
  if (const auto* branch = as<nest::Guard>(nest)) {
    if (ir::has_load(branch->condition)) return {};
    std::vector<Next> then = find_first(branch->then, sought);
    std::vector<Next> otherwise = find_first(branch->otherwise, sought);
    for (Next& next : then) next.guard = next.guard && branch->condition;
    for (Next& next : otherwise) next.guard = next.guard && !branch->condition;
    then.insert(then.end(), otherwise.begin(), otherwise.end());
    return then;
  }
  if (const auto* buffer = as<nest::Buffer>(nest)) {
    std::vector<Next> first = find_first(buffer->body, sought);
    // What a buffer that is not there yet says of places is not known.
    auto is_unknown = [&](const Row& row) {
      return row.buffer == buffer->name ||
             ir::any<Load>(row.index, [&](const Load* op) { return op->name == buffer->name; });
    };
    auto unknown = [&](const Next& next) {
      return std::any_of(next.gathers.rows.begin(), next.gathers.rows.end(), is_unknown);
    };
    first.erase(std::remove_if(first.begin(), first.end(), unknown), first.end());
    return first;
  }
  if (const auto* loop = as<Loop>(nest)) {
    auto gathers = gathers_of(*loop, sought);
    auto extent = as_const_int(loop->extent);
    if (gathers && extent && *extent > 0 && is_const(loop->min)) return {Next{*gathers}};
  }
  return {};
}

class PrefetchGathers {
 public:
  explicit PrefetchGathers(const Sought& sought) : sought_(sought) {}

  Nest visit(const Nest& nest) {
    if (const auto* loop = as<Loop>(nest)) return visit_loop(nest, *loop);
    if (const auto* sequence = as<nest::Sequence>(nest)) return visit_sequence(*sequence);
    // A name that is bound means something else elsewhere.
    if (as<nest::Binding>(nest)) return before({}, nest);
    return inside(nest);
  }

 private:
  Nest inside(const Nest& nest) {
    return nest::map_children(nest, [&](const Nest& child) { return visit(child); });
  }

  /// What is inside of a nest, behind all of which these may run.
  Nest before(std::vector<Next> next, const Nest& nest) {
    std::swap(next_, next);
    Nest result = inside(nest);
    std::swap(next_, next);
    return result;
  }

  Nest visit_loop(const Nest& nest, const Loop& loop) {
    if (auto gathers = gathers_of(loop, sought_)) return prefetch(nest, *gathers);
    if (loop.role != Role::Serial) return before({}, nest);
    // Behind the last part of the body runs the first one, an iteration later.
    std::vector<Next> next = find_first(loop.body, sought_);
    const Expr now = ir::make_variable(loop.name), later = now + 1;
    for (Next& each : next) {
      if (is_const_one(each.guard)) each.repeats = loop.min + loop.extent - 1 - now;
      each.guard = ir::simplify_index(now < loop.min + loop.extent - 1 &&
                                      substitute(loop.name, later, each.guard));
      for (Row& row : each.gathers.rows) row.index = substitute(loop.name, later, row.index);
    }
    return before(std::move(next), nest);
  }

  Nest visit_sequence(const nest::Sequence& sequence) {
    std::vector<Nest> parts = sequence.parts;
    std::vector<Next> behind = next_;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      std::vector<Next> first = find_first(*part, sought_);
      *part = visit(*part);
      if (!first.empty()) next_ = std::move(first);
    }
    next_ = std::move(behind);
    return nest::make_sequence(parts);
  }

  /// Iterations prefetch what those some places behind them read, the last ones for what the next
  /// loop reads first: else the memory would have nothing to do at every change of loops.
  Nest prefetch(const Nest& loop, const Gathers& gathers) const {
    std::vector<Nest> prefetches = {prefetch_ahead(gathers, &Gathers::ahead, 2)};
    if (gathers.shortly > 0) prefetches.push_back(prefetch_ahead(gathers, &Gathers::shortly, 1));
    return nest::prepend(loop, prefetches);
  }

  /// Whether the loop itself runs next, and what says where it reads lies behind what says it now:
  /// no branch is needed then, which the processor would guess wrong at the end of every bag.
  bool goes_on(const Gathers& gathers) const {
    if (next_.size() != 1 || next_[0].gathers.loop != gathers.loop || !next_[0].repeats.defined())
      return false;
    const Loop& loop = *gathers.loop;
    const std::vector<Row>& behind = next_[0].gathers.rows;
    for (size_t r = 0; r < gathers.rows.size(); ++r) {
      const Expr beyond =
          substitute(loop.name, ir::make_variable(loop.name) + loop.extent, gathers.rows[r].index);
      if (!equal(simplify(beyond), simplify(behind[r].index))) return false;
    }
    return true;
  }

  Nest prefetch_ahead(const Gathers& gathers, int Gathers::*ahead_of, int cache) const {
    const Loop& loop = *gathers.loop;
    const int ahead = gathers.*ahead_of;
    const Expr now = ir::make_variable(loop.name), end = loop.min + loop.extent;
    const Expr later = now + ahead;
    if (next_.empty()) return gathers.prefetch(min(later, end - 1), cache);
    if (goes_on(gathers))
      return gathers.prefetch(min(later, end - 1 + next_[0].repeats * loop.extent), cache);
    Nest beyond;
    for (auto next = next_.rbegin(); next != next_.rend(); ++next) {
      const Gathers& behind = next->gathers;
      if (behind.*ahead_of == 0) continue;
      const Expr distance = min(std::min(ahead, behind.*ahead_of), loop.extent);
      const Expr iteration = clamp(now + distance - end, 0, behind.loop->extent - 1);
      beyond = nest::make(
          nest::Guard{next->guard, behind.prefetch(behind.loop->min + iteration, cache), beyond});
    }
    // Most are for the loop itself, few for what follows it.
    const bool likely = beyond != nullptr;
    return nest::make(nest::Guard{later < end, gathers.prefetch(later, cache), beyond, likely});
  }

  const Sought sought_;
  std::vector<Next> next_;  ///< what may run behind the visited nest
};

}  // namespace

Nest prefetch_gathers(const Nest& nest, const std::set<std::string>& buffers,
                      const CpuMachine& machine) {
  return buffers.empty() ? nest : PrefetchGathers({buffers, machine}).visit(nest);
}

}  // namespace tc::codegen
